/**
 * Conversations through chains of donors that are models of donors: each keeps what it read, loses it, has no room or dies,
 * and draws the sum of all tokens that it has read of a conversation. So an answer is right only where every stage read all
 * of the conversation, once and in order, and nothing of another one.
 */
import { expect, test } from 'vitest';
import { arrayOf, at, below, type PeerId, peerId, type Random, seededRandom } from '../base.ts';
import type { AnswerMessage } from '../messages/answerWords.ts';
import type { Plan } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { Answering } from './answering.ts';

const MODULUS = 1_009;
const drawn = (ids: readonly number[]): number => ids.reduce((sum, id, place) => (sum + id * (place + 1)) % MODULUS, 1);

/** What an honest model goes on with. */
function answerTo(prompt: readonly number[], count: number): number[] {
  const ids = [...prompt];
  for (let i = 0; i < count; i++) ids.push(drawn(ids));
  return ids.slice(prompt.length);
}

interface Sent {
  readonly to: PeerId;
  readonly message: AnswerMessage;
}

class Donors {
  readonly sent: Sent[] = [];
  nowMs = 0;
  readonly answering = new Answering(MODULUS, (to, message) => this.sent.push({ to, message }));
  /** By donor, stage and conversation: what the first stage knows by its ids, and later ones by the stream. */
  readonly #read = new Map<string, number[]>();
  readonly #streams = new Map<string, readonly (readonly number[])[]>();
  readonly #random: Random;
  #stalled: Sent[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  /** Does one piece of work that can be done; false: there is none. */
  work(trouble: number): boolean {
    const ready = this.sent.findIndex(
      ({ message: { from, piece, stage } }) => from === null || this.#streams.has(`${piece}/${stage}`),
    );
    const [next] = ready < 0 ? [] : this.sent.splice(ready, 1);
    if (!next) return false;
    const { to, message } = next;
    const { epoch, piece, stage, parts } = message;
    if (this.#random() < trouble) {
      const kind = below(this.#random, 3);
      if (kind === 0) this.#read.clear();
      else {
        const reason = kind === 1 ? 'noRoom' : 'failed';
        this.answering.unanswered(to, { type: 'unanswered', epoch, piece, stage, reason, conversations: [] }, 0);
        return true;
      }
    }
    const key = (conversation: number): string => `${to}/${stage}/${conversation}`;
    const gone = parts.filter(({ conversation, at }) => at > 0 && this.#read.get(key(conversation))?.length !== at);
    if (gone.length > 0) {
      const conversations = gone.map(({ conversation }) => conversation);
      this.answering.unanswered(to, { type: 'unanswered', epoch, piece, stage, reason: 'gone', conversations }, 0);
      return true;
    }
    const stream = parts.map(({ conversation, at: from, ids }, place) => {
      const rows = stage === 0 ? ids : at(this.#streams.get(`${piece}/${stage}`) ?? [], place);
      const all = [...(from === 0 ? [] : (this.#read.get(key(conversation)) ?? [])), ...rows];
      this.#read.set(key(conversation), all);
      return { rows, all };
    });
    if (message.to !== null)
      this.#streams.set(
        `${piece}/${stage + 1}`,
        stream.map(({ rows }) => rows),
      );
    const tokens = message.to === null ? parts.flatMap(({ draw }, i) => (draw ? drawn(at(stream, i).all) : [])) : [];
    this.answering.answered(
      to,
      { type: 'answered', epoch, piece, stage, steps: 3 + stage, seconds: 0, tokens },
      this.nowMs,
    );
    return true;
  }

  /** Everything on its way is lost. */
  lose(): void {
    this.#stalled = this.sent.splice(0);
    this.#read.clear();
    this.#streams.clear();
  }

  /** What was on its way comes after all. */
  late(): void {
    this.sent.push(...this.#stalled.splice(0));
  }
}

const model = outlineModel(4, true);
const plans: readonly Plan[] = [1, 2, 4].map((count) =>
  equalSplit(
    model,
    4,
    arrayOf(count, (i) => peerId(`donor-${i}`)),
    { microBatches: 4 },
  ),
);

test.each([1, 2, 3, 4, 5, 6])(
  '[AN1] [AN3] every answer is its own, whatever is lost and whoever comes (seed %i)',
  (seed) => {
    const random = seededRandom(seed);
    const donors = new Donors(random);
    const { answering } = donors;
    let epoch = 1;
    answering.planned({ epoch, plan: at(plans, seed % plans.length) }, 0);
    const asked: { ids: number[]; count: number; tokens: number[]; ended: (string | null)[] }[] = [];
    for (let round = 0; round < 3_000; round++) {
      if (asked.length < 40 && random() < 0.05) {
        const ids = arrayOf(1 + below(random, 70), () => below(random, MODULUS));
        const one = { ids, count: 1 + below(random, 12), tokens: [] as number[], ended: [] as (string | null)[] };
        const asker = {
          token: (token: number) => void one.tokens.push(token),
          ended: (reason: string | null) => void one.ended.push(reason),
        };
        const question = {
          from: String(asked.length % 5),
          ids,
          mostTokens: one.count,
          temperature: 0,
          topP: 1,
          seed: 0,
        };
        const takeBack = answering.ask(question, asker, 0);
        if (random() < 0.1) takeBack();
        else asked.push(one);
      }
      if (random() < 0.01) {
        donors.lose();
        answering.planned({ epoch: ++epoch, plan: at(plans, below(random, plans.length)) }, 0);
        if (random() < 0.5) donors.late();
      }
      donors.work(0.02);
    }
    answering.look(1e9);
    while (donors.work(0)) answering.look(1e9);
    expect(asked.length).toBeGreaterThan(20);
    for (const { ids, count, tokens, ended } of asked) {
      expect(ended).toHaveLength(1);
      expect(tokens).toEqual(answerTo(ids, ended[0] === null ? count : tokens.length));
    }
    // Five failures of one conversation are rare.
    expect(asked.filter(({ ended }) => ended[0] !== null).length).toBeLessThan(3);
  },
);

test('an answer says of which steps the values were, and how many donors had a part', () => {
  const donors = new Donors(seededRandom(1));
  donors.answering.planned({ epoch: 1, plan: at(plans, 2) }, 0);
  const told: object[] = [];
  const asker = { token: (_: number, by: object) => void told.push(by), ended: () => {} };
  donors.answering.ask({ from: 'someone', ids: [5], mostTokens: 1, temperature: 0, topP: 1, seed: 0 }, asker, 0);
  while (donors.work(0));
  expect(told).toEqual([{ fromStep: 3, toStep: 6, donors: 4 }]);
});

const NOTHING = { token: () => {}, ended: () => {} };
const question = (from: string, mostTokens = 1) =>
  ({ from, ids: [1], mostTokens, temperature: 0, topP: 1, seed: 0 }) as const;

test('past the places of all chains and a bounded number that waits there is no room', () => {
  const donors = new Donors(seededRandom(1));
  const { answering } = donors;
  const room = () => answering.room('a', 1, 0).is;
  expect(room()).toBe('none');
  answering.planned({ epoch: 1, plan: at(plans, 0) }, 0);
  let asked = 0;
  for (; room() === 'free'; asked++) answering.ask(question('a'), NOTHING, 0);
  expect([asked, room()]).toEqual([16 + 64, 'busy']);
  while (donors.work(0));
  expect(room()).toBe('free');
});

test('[AN6] whoever asks is told when the first token may come, and who would wait too long when to come back', () => {
  const donors = new Donors(seededRandom(1));
  const { answering } = donors;
  answering.planned({ epoch: 1, plan: at(plans, 1) }, 0);
  answering.ask(question('a'), NOTHING, 0);
  donors.nowMs = 1_500;
  while (donors.work(0));
  expect(answering.room('a', 33, 0)).toEqual({ is: 'free', firstTokenMs: 3_000, tokenMs: 1_500 });
  for (let i = 0; i < 16; i++) answering.ask(question('a', 25), NOTHING, 0);
  const patient = { is: 'busy', retryMs: 25 * 1_500 - 30_000 };
  expect([answering.room('a', 1, 0), answering.room('b', 1, 0)]).toEqual([patient, patient]);
});

test('[AN6] askers get places in turn', () => {
  const donors = new Donors(seededRandom(1));
  const { answering } = donors;
  answering.planned({ epoch: 1, plan: at(plans, 0) }, 0);
  const order: string[] = [];
  const ask = (from: string): void => {
    answering.ask(question(from), { token: () => void order.push(from), ended: () => {} }, 0);
  };
  for (let i = 0; i < 16 + 20; i++) ask('greedy');
  for (let i = 0; i < 3; i++) ask('modest');
  while (donors.work(0));
  // One alone, 15 and the first place that is free again, then 16 in one piece: after it 6 greedy ones are left.
  expect(order.lastIndexOf('modest')).toBeLessThan(1 + 16 + 16);
  expect(order).toHaveLength(16 + 20 + 3);
});

test('a token that the model does not have ends an answer, and is told to nobody', () => {
  const sent: AnswerMessage[] = [];
  const answering = new Answering(MODULUS, (_, message) => void sent.push(message));
  answering.planned({ epoch: 1, plan: at(plans, 0) }, 0);
  const told: unknown[] = [];
  const asker = {
    token: (token: number) => void told.push(token),
    ended: (reason: string | null) => void told.push(reason),
  };
  answering.ask({ from: 'someone', ids: [5], mostTokens: 3, temperature: 0, topP: 1, seed: 0 }, asker, 0);
  const { epoch, piece, stage } = at(sent, 0);
  answering.answered(
    peerId('donor-0'),
    { type: 'answered', epoch, piece, stage, steps: 1, seconds: 0, tokens: [MODULUS] },
    0,
  );
  expect(told).toEqual(['a donor drew no token of this model']);
});

test('whoever waits for donors who refuse again and again is told, so that others may answer', () => {
  const sent: AnswerMessage[] = [];
  const answering = new Answering(MODULUS, (_, message) => void sent.push(message));
  answering.planned({ epoch: 1, plan: at(plans, 0) }, 0);
  const ends: (string | null)[] = [];
  answering.ask(question('someone'), { token: () => {}, ended: (reason) => void ends.push(reason) }, 0);
  const refuse = (nowMs: number): void => {
    const { epoch, piece, stage } = at(sent, sent.length - 1);
    const message = {
      type: 'unanswered' as const,
      epoch,
      piece,
      stage,
      reason: 'unwilling' as const,
      conversations: [],
    };
    answering.unanswered(peerId('donor-0'), message, nowMs);
    answering.look(nowMs);
  };
  refuse(0);
  expect([sent.length, ends]).toEqual([1, []]);
  answering.look(60_001);
  expect(sent).toHaveLength(2);
  refuse(60_001);
  expect(ends).toEqual(['no donor computes with these weights']);
});
