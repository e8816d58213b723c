/** When a donor does a piece of answers, and when it gives it back: on stages that only count what they are given. */
import { expect, test } from 'vitest';
import { invariant } from '../../../swarm/base.ts';
import type { AnswerMessage } from '../../../swarm/messages/answerWords.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { type AnswerHost, Answers } from './answers.ts';
import type { AnswerRow, AnswerStage, Stage } from './engine.ts';
import { IdleWindows } from './idleWindows.ts';
import type { Engine, Role } from './role.ts';

const MODEL = modelFromConfig({
  model_type: 'gpt2',
  n_layer: 1,
  n_head: 1,
  n_embd: 4,
  n_positions: 16,
  vocab_size: 11,
});

const PART = { conversation: 1, at: 0, rows: 2, ids: [5, 6], draw: null };
const PIECE: AnswerMessage = {
  ...{ type: 'answer', epoch: 1, piece: 1, stage: 0, from: null, to: null, parts: [PART], ended: [] },
};

const moment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** `idle`: nothing of training has been due for long. */
function opened({ idle = true, mayAnswer = true, before = () => Promise.resolve() } = {}) {
  invariant(MODEL.ok, 'the model is one');
  const ran: (readonly AnswerRow[])[] = [];
  const said: unknown[] = [];
  const waits: (() => void)[] = [];
  let here = true;
  const answerStage: AnswerStage = {
    bytes: 10,
    run: (rows) => void ran.push(rows),
    readOutput: () => Promise.reject(new Error('it is the last stage')),
    readTokens: async () => [7],
    close: () => {},
  };
  const stage = { settled: async () => {}, blocks: [] } as unknown as Stage;
  const role = {
    ...{ epoch: 1, model: MODEL.value, plan: { stages: [{ layers: [0, 1] }] } },
    ...{ stages: new Map([[0, stage]]), shards: { bytes: 0 } },
  } as unknown as Role;
  const engine = { compute: 'f32', answers: async () => answerStage } as unknown as Engine;
  const host: AnswerHost = {
    now: () => 100,
    wait: () => new Promise((resolve) => waits.push(resolve)),
    windows: new IdleWindows(() => 100, idle ? 0 : 100),
    throttle: {
      ...{ freeInSeconds: 0, speed: 1, alone: () => null },
      run: async (_kind, submit, settled) => {
        await before();
        submit();
        await settled();
      },
    },
    role: () => (here ? { role, engine, steps: 3 } : null),
    mayAnswer: async () => mayAnswer,
    memoryBytes: () => null,
    answering: () => {},
    sendServer: (message) => void said.push(message),
    sendFrames: async () => {},
  };
  const answers = new Answers(host);
  const leave = (): void => {
    here = false;
    answers.clear();
  };
  return { answers, ran, said, waits, leave };
}

test('[AN2] an idle donor does a piece at once, and says of how many steps its values are', async () => {
  const { answers, ran, said } = opened();
  answers.asked({ ...PIECE, parts: [{ ...PART, draw: { temperature: 0, topP: 1, seed: 0, number: 0 } }] });
  await moment();
  expect(ran.map((rows) => rows.map(({ id, position, draw }) => [id, position, draw !== null]))).toEqual([
    [
      [5, 0, false],
      [6, 1, true],
    ],
  ]);
  expect(said).toEqual([
    { type: 'answered', epoch: 1, piece: 1, stage: 0, steps: 3, seconds: expect.any(Number), tokens: [7] },
  ]);
});

test('[AN2] where training may be due at any moment a piece waits', async () => {
  const { answers, ran, said, waits } = opened({ idle: false });
  answers.asked(PIECE);
  await moment();
  expect([ran, said, waits.length]).toEqual([[], [], 1]);
});

test('[AN3] what is not here any more, or is not wanted here, is given back with the reason', async () => {
  const { answers, said } = opened();
  answers.asked({ ...PIECE, parts: [{ ...PART, at: 4 }] });
  await moment();
  const other = opened({ mayAnswer: false });
  other.answers.asked(PIECE);
  await moment();
  expect([...said, ...other.said]).toEqual([
    { type: 'unanswered', epoch: 1, piece: 1, stage: 0, reason: 'gone', conversations: [1] },
    { type: 'unanswered', epoch: 1, piece: 1, stage: 0, reason: 'unwilling', conversations: [] },
  ]);
});

test('a plan that goes while a piece waits for its place on the GPU: no buffer of it is touched, and nothing is said', async () => {
  let go = (): void => {};
  const before = (): Promise<void> =>
    new Promise((resolve) => {
      go = resolve;
    });
  const { answers, ran, said, leave } = opened({ before });
  answers.asked(PIECE);
  await moment();
  leave();
  go();
  await moment();
  expect([ran, said]).toEqual([[], []]);
});
