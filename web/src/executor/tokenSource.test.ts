import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { type Order, SEQUENTIAL, type TokenList, windowOfSample } from '../../../swarm/run/data.ts';
import { trainSchema } from '../../../swarm/run/runFile.ts';
import { TokenSource } from './tokenSource.ts';
import { expectTokens, samplesRead } from './tokensAhead.ts';

const SHARD_TOKENS = 8;
const SEQUENCE = 4;
const SHUFFLED: Order = { type: 'shuffled', seed: 3 };

/** A list of `shards` shards whose token k is k mod 65,536; a fetch is answered when the test says so. */
class FakeServer {
  readonly list: TokenList;
  readonly asked: string[] = [];
  waiting: { readonly hash: string; readonly answer: (works: boolean) => void }[] = [];
  mostAtOnce = 0;

  constructor(shards: number) {
    const names = Array.from({ length: shards }, (_, index) => String(index));
    this.list = { tokens: shards * SHARD_TOKENS, shardTokens: SHARD_TOKENS, bytesPerToken: 2, shards: names };
  }

  readonly fetchShard = (hash: string): Promise<ArrayBuffer> => {
    this.asked.push(hash);
    return new Promise((resolve, reject) => {
      const first = Number(hash) * SHARD_TOKENS;
      const tokens = Uint16Array.from({ length: SHARD_TOKENS }, (_, i) => first + i);
      const answer = (works: boolean): void => (works ? resolve(tokens.buffer) : reject(new Error('no answer')));
      this.waiting.push({ hash, answer });
      this.mostAtOnce = Math.max(this.mostAtOnce, this.waiting.length);
    });
  };

  /** Answers what is asked, and what is asked because of that, until nothing is. */
  async answerAll(works = true): Promise<void> {
    while (this.waiting.length > 0) {
      const { waiting } = this;
      this.waiting = [];
      for (const { answer } of waiting) answer(works);
      await settled();
    }
  }
}

/** Every promise that can be kept now has been. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const sourceOf = (server: FakeServer, order: Order = SEQUENTIAL): TokenSource =>
  new TokenSource(server.list, order, { sequenceLength: SEQUENCE, vocabulary: 65_535 }, server.fetchShard);
const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await settled();
  return done;
}

test.each([
  ['in sequence', SEQUENTIAL],
  ['shuffled', SHUFFLED],
] as const)('%s, the tokens are those of the windows, the targets one later', async (_, order) => {
  const server = new FakeServer(5);
  const source = sourceOf(server, order);
  expect(source.windows).toBe(9);
  for (const first of [0, 7, 30]) {
    const reading = source.read(first, [1, 4]);
    await server.answerAll();
    const { ids, targets } = await reading;
    const starts = [1, 2, 3].map((sample) => windowOfSample(order, first + sample, 9) * SEQUENCE);
    expect([...ids]).toEqual(starts.flatMap((start) => range(start, start + SEQUENCE)));
    expect([...targets]).toEqual(starts.flatMap((start) => range(start + 1, start + 1 + SEQUENCE)));
  }
});

test('a step whose tokens could have been there waits for none of them', async () => {
  // Shuffled, each of these steps reads more shards than are kept.
  const batch = 200;
  const server = new FakeServer(1_000);
  const source = sourceOf(server, SHUFFLED);
  for (let step = 0; step < 4; step++) {
    source.expect(range(step * batch, (step + 2) * batch));
    await server.answerAll(); // while the step before is computed
    const asked = server.asked.length;
    for (const samples of [[0, 150] as const, [150, 200] as const])
      expect(await isDone(source.read(step * batch, samples))).toBe(true);
    expect(server.asked.length).toBe(asked);
  }
});

test('a step that is done again, or read at both ends of the pipeline, fetches nothing again', async () => {
  const server = new FakeServer(300);
  const source = sourceOf(server, SHUFFLED);
  source.expect(range(0, 100));
  await server.answerAll();
  const asked = server.asked.length;
  for (let time = 0; time < 3; time++) {
    source.expect(range(0, 100));
    expect(await isDone(source.read(0, [0, 100]))).toBe(true);
  }
  expect(server.asked.length).toBe(asked);
});

test('in sequence every shard is fetched once', async () => {
  const server = new FakeServer(40);
  const source = sourceOf(server);
  for (let step = 0; step < 15; step++) {
    source.expect(range(step * 5, (step + 3) * 5));
    await server.answerAll();
    await source.read(step * 5, [0, 5]);
  }
  expect(server.asked).toEqual([...new Set(server.asked)]);
});

test('few fetches are on their way at once, in the order of need; what is waited for goes first', async () => {
  const server = new FakeServer(50);
  const source = sourceOf(server);
  source.expect(range(0, 60));
  expect(server.asked).toEqual(['0', '1', '2', '3']);
  const reading = source.read(60, [0, 1]); // nobody expected it
  const expected = source.read(56, [0, 1]); // expected, but last
  server.waiting.shift()?.answer(true);
  await settled();
  server.waiting.shift()?.answer(true);
  await settled();
  // Window w begins with token 4·w: these are the shards of 56 and 60.
  expect(server.asked.slice(4)).toEqual(['28', '30']);
  await server.answerAll();
  expect(await isDone(Promise.all([reading, expected]))).toBe(true);
  expect(server.mostAtOnce).toBe(4);
});

test('a fetch that failed is tried once more by the one who needs it', async () => {
  const server = new FakeServer(10);
  const source = sourceOf(server);
  source.expect([0, 1]);
  await server.answerAll(false);
  expect(server.asked).toEqual(['0', '1']);
  const reading = source.read(0, [0, 1]);
  await server.answerAll();
  expect([...(await reading).ids]).toEqual([0, 1, 2, 3]);

  const failing = source.read(6, [0, 1]);
  const outcome = failing.then(
    () => 'read',
    (error: Error) => error.message,
  );
  await server.answerAll(false);
  expect(await outcome).toBe('no answer');
  expect(server.asked.filter((hash) => hash === '3')).toHaveLength(2);
});

test('a peer reads the samples of its micro-batches in the first and the last stage, of examples in every one', () => {
  const member = (peer: string, microBatches: number[]) => ({
    peer: peerId(peer),
    microBatches,
    samples: 0,
    recompute: [],
  });
  const plan: Pick<Plan, 'stages' | 'microBatches'> = {
    stages: [
      { layers: [0, 1], members: [member('a', [0, 2]), member('b', [1])] },
      { layers: [1, 2], members: [member('c', [0, 1, 2])] },
      { layers: [2, 3], members: [member('a', [1]), member('d', [0, 2])] },
    ],
    microBatches: [
      { id: 2, samples: [0, 1] },
      { id: 0, samples: [1, 3] },
      { id: 1, samples: [3, 5] },
    ],
  };
  const read = (peer: string, hasExamples = false) => samplesRead(plan as Plan, peerId(peer), { hasExamples });
  expect([read('a'), read('b'), read('c'), read('d')]).toEqual([[1, 2, 3, 4, 0], [3, 4], [], [1, 2, 0]]);
  expect(read('c', true)).toEqual([1, 2, 3, 4, 0]);
});

test('[IS2] what is read next is that of the steps’ numbers, an island’s turn at a time', () => {
  const train = trainSchema.parse({
    ...{ steps: 11, globalBatchSize: 4, sequenceLength: 8, islands: { count: 3, innerSteps: 2 } },
    optimizer: { type: 'adamw', learningRate: 0.1, betas: [0.9, 0.95], epsilon: 1e-8 },
  });
  const expected: number[][] = [];
  const tokens: Pick<TokenSource, 'expect'> = { expect: (samples) => expected.push([...samples]) };
  expectTokens(tokens, train, [0, 3], 1);
  expectTokens(tokens, train, [0], 9);
  // Numbers 3, 1, 4, 2, 5; then the last two steps, 10 and 8.
  expect(expected).toEqual([
    [12, 15, 4, 7, 16, 19, 8, 11, 20, 23],
    [40, 32],
  ]);
});
