/** Who answers the active run's newest weights: its donors, and where these go the server's own processor from there on. */
import { afterEach, expect, test, vi } from 'vitest';
import { at, peerId } from '../../swarm/base.ts';
import type { AnswerMessage } from '../../swarm/messages/answerWords.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { outlineModel } from '../../swarm/testing/randomPlan.ts';
import type { AnsweredToken, Answerer, ModelAnswer, Question } from './answerer.ts';
import { DonorAnswers, donorsFirst } from './donorAnswers.ts';

const [A] = [peerId('a')];
const PLAN: Plan = equalSplit(outlineModel(2, true), 2, [A], { microBatches: 2 });
const QUESTION: Question = {
  ...{ from: 'key', run: 'run', step: null, ids: [1, 2], mostTokens: 4, temperature: 0, topP: 1, seed: 0, ends: [9] },
};

afterEach(() => void vi.useRealTimers());

function opened() {
  const sent: AnswerMessage[] = [];
  const asked: Question[] = [];
  const counted: string[] = [];
  let inForce: { readonly epoch: number; readonly plan: Plan } | 'kept' | 'over' | null = { epoch: 1, plan: PLAN };
  let isConnected = true;
  const counts = { tokenAnswered: (by: string) => void counted.push(by), sentAway: () => void counted.push('away') };
  const donors = new DonorAnswers({
    vocabulary: 100,
    nowMs: () => 0,
    counts,
    send: (_, message) => void sent.push(message),
    isConnected: () => isConnected,
    committedSteps: () => 7,
    inForce: () => inForce,
  });
  const server: Answerer = {
    answer: async (question): Promise<ModelAnswer> => {
      asked.push(question);
      async function* tokens(): AsyncGenerator<AnsweredToken> {
        for (let i = 0; i < question.mostTokens; i++) yield { token: 50 + i, fromStep: 3, toStep: 3, donors: 0 };
      }
      return { ok: true, tokens: tokens() };
    },
  };
  const answerer = donorsFirst({ name: 'run', answers: donors }, server);
  const change = (next: typeof inForce, connected = true): void => {
    [inForce, isConnected] = [next, connected];
    donors.changed();
  };
  donors.changed();
  /** The only stage draws this for the newest piece. */
  const draw = (token: number): void => {
    const { epoch, piece, stage } = at(sent, sent.length - 1);
    donors.said(A, { type: 'answered', epoch, piece, stage, steps: 1_000, seconds: 0.5, tokens: [token] });
  };
  return { donors, answerer, sent, asked, counted, change, draw };
}

async function begun(answerer: Answerer, question = QUESTION, signal = new AbortController().signal) {
  const answer = await answerer.answer(question, signal);
  if (!answer.ok) throw new Error(answer.refusal.of);
  return answer.tokens[Symbol.asyncIterator]();
}

test('donors draw each token, until one that ends the text', async () => {
  const { answerer, draw, asked, counted, sent } = opened();
  const tokens = await begun(answerer);
  const first = tokens.next();
  draw(5);
  expect(await first).toEqual({ done: false, value: { token: 5, fromStep: 7, toStep: 7, donors: 1 } });
  const second = tokens.next();
  draw(9);
  expect((await second).value).toMatchObject({ token: 9 });
  expect((await tokens.next()).done).toBe(true);
  expect([asked, counted]).toEqual([[], ['donors', 'donors']]);
  expect(at(sent, 0).parts).toEqual([
    { conversation: 1, at: 0, rows: 2, ids: [1, 2], draw: { temperature: 0, topP: 1, seed: 0, number: 0 } },
  ]);
});

test('a run that is over: the server goes on after the tokens that donors drew', async () => {
  const { answerer, draw, asked, change } = opened();
  const tokens = await begun(answerer);
  const first = tokens.next();
  draw(5);
  await first;
  const second = tokens.next();
  change('over');
  expect((await second).value).toEqual({ token: 50, fromStep: 3, toStep: 7, donors: 1 });
  expect([(await tokens.next()).value.token, (await tokens.next()).value.token]).toEqual([51, 52]);
  expect((await tokens.next()).done).toBe(true);
  expect(asked).toEqual([{ ...QUESTION, ids: [1, 2, 5], mostTokens: 3 }]);
});

test('without a plan they wait ten seconds for another one, which reads all of it in again', async () => {
  vi.useFakeTimers();
  const { answerer, draw, asked, change, sent } = opened();
  const tokens = await begun(answerer);
  const first = tokens.next();
  draw(5);
  await first;
  const second = tokens.next();
  change(null);
  await vi.advanceTimersByTimeAsync(9_000);
  change({ epoch: 2, plan: PLAN });
  await vi.advanceTimersByTimeAsync(9_000);
  expect(at(sent, sent.length - 1)).toMatchObject({ epoch: 2, parts: [{ at: 0, rows: 3, ids: [1, 2, 5] }] });
  draw(6);
  expect((await second).value).toMatchObject({ token: 6 });
  const third = tokens.next();
  change(null);
  await vi.advanceTimersByTimeAsync(10_001);
  expect((await third).value).toMatchObject({ token: 50 });
  expect(asked).toHaveLength(1);
});

test('a run that stands keeps answering with its plan, as long as all of its donors are here', async () => {
  const { answerer, draw, change, asked } = opened();
  change('kept');
  const tokens = await begun(answerer);
  const first = tokens.next();
  draw(5);
  expect((await first).value).toMatchObject({ token: 5 });
  change('kept', false);
  const other = await begun(answerer);
  expect((await other.next()).value).toMatchObject({ token: 50 });
  expect(asked).toHaveLength(1);
});

test('checkpoints and other runs are the server’s', async () => {
  const { answerer, asked, sent } = opened();
  await begun(answerer, { ...QUESTION, step: 3 });
  await begun(answerer, { ...QUESTION, run: 'other' });
  expect([asked.length, sent.length]).toEqual([2, 0]);
});

test('whoever asked and has gone is answered no more', async () => {
  const { answerer, draw, sent } = opened();
  const gone = new AbortController();
  const tokens = await begun(answerer, QUESTION, gone.signal);
  const first = tokens.next();
  gone.abort();
  expect((await first).done).toBe(true);
  const before = sent.length;
  draw(5);
  expect(sent.length).toBe(before);
});
