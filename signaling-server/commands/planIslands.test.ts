import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Captured } from '../testing/captured.ts';
import { runCommand } from './program.ts';

const CORPUS = fileURLToPath(new URL('../../e2e/golden/gpt2-tiny/corpus.txt', import.meta.url));
const RUN = {
  name: 'homes',
  model: {
    model_type: 'gpt2',
    n_layer: 4,
    n_head: 4,
    n_embd: 64,
    n_positions: 64,
    vocab_size: 256,
    tie_word_embeddings: false,
  },
  data: { files: [CORPUS], tokenizer: 'bytes' },
  init: { seed: 1 },
  train: {
    ...{ steps: 1000, globalBatchSize: 8, sequenceLength: 64 },
    optimizer: { type: 'adamw', learningRate: 0.001, betas: [0.9, 0.95], epsilon: 1e-8 },
  },
};
/** Good machines on lines so slow that gradients are no use to anybody else. */
const CLUSTER = {
  peers: ['a', 'b', 'c'].map((id) => ({ id, memoryBytes: 1e8, flopsPerSecond: 2e9, uploadBytesPerSecond: 2e4 })),
  links: { default: { latencySeconds: 0.05, bytesPerSecond: 2e4 } },
};

const command = new Captured();
beforeEach(() => command.begin());
afterEach(() => command.end());

function write(name: string, json: unknown): string {
  const path = join(command.folder, name);
  writeFileSync(path, JSON.stringify(json));
  return path;
}

const plan = (train: object, cluster: object, words: readonly string[] = [], precision: object = {}): Promise<number> =>
  runCommand([
    ...['plan', write('run.json', { ...RUN, precision, train: { ...RUN.train, ...train } })],
    ...['--cluster', write('cluster.json', cluster), ...words],
  ]);

it('says what islands do beside one swarm, as one document', async () => {
  const islands = { count: 'auto', roundSeconds: 60 };
  expect(await plan({ islands }, CLUSTER, ['--json'], { wire: 'auto' })).toBe(0);
  expect(command.errors).toBe('');
  const answer = JSON.parse(command.out);
  expect(Object.keys(answer)).toEqual(['islands', 'predicted', 'synchronous', 'idle', 'reasons']);
  expect(Object.keys(answer.predicted)).toEqual([
    ...['roundSeconds', 'meetingSeconds', 'tokensPerSecond', 'expectedTokensPerSecond', 'owners'],
  ]);
  expect(answer.predicted.expectedTokensPerSecond).toBeLessThan(answer.predicted.tokensPerSecond);
  // Three whose lines are alike send each other their packets.
  expect(answer.predicted.owners).toEqual([]);
  const steps = answer.islands.reduce(
    (sum: number, { predicted }: { predicted: { stepsPerRound: number } }) => sum + predicted.stepsPerRound,
    0,
  );
  // More than a twentieth of the run's 1,000.
  expect(steps).toBeGreaterThan(50);
  expect(answer.reasons[1]).toContain(`A round has time for ${steps} steps`);
  expect(answer.reasons[1]).toContain('of 50 at most');
  expect((steps * 8 * 64) / answer.predicted.roundSeconds).toBeCloseTo(answer.predicted.tokensPerSecond, 6);
  expect(Object.keys(answer.synchronous)).toEqual(['stepSeconds', 'tokensPerSecond']);
  // `warmup` stands beside the schedule where it overlaps.
  expect(Object.keys(answer.islands[0]).filter((key) => key !== 'warmup')).toEqual([
    'stages',
    'microBatches',
    'state',
    'schedule',
    'predicted',
  ]);
  expect(answer.islands).toHaveLength(3);
  // Three who step apart do nearly three times what one of them does.
  expect(answer.predicted.tokensPerSecond / answer.synchronous.tokensPerSecond).toBeGreaterThan(2);
  expect(answer.predicted.tokensPerSecond / answer.synchronous.tokensPerSecond).toBeLessThan(3);
  expect(answer.reasons[0]).toMatch(
    /^One swarm that takes its steps together does .*; islands do 2\.\d+ times as many, since only /,
  );
});

it('what donors who leave cost is said of the one swarm as of islands: a step, or a round, is done again', async () => {
  const peers = CLUSTER.peers.map((peer, place) => ({ ...peer, ...(place === 0 && { meanSessionSeconds: 100 }) }));
  expect(await plan({ islands: { count: 'auto', roundSeconds: 60 } }, { ...CLUSTER, peers }, ['--json'])).toBe(0);
  const { reasons, synchronous, predicted } = JSON.parse(command.out);
  const [, donor] = /since only (\w+) computes in that swarm/.exec(reasons[0]) ?? [];
  const [, expected, times] =
    /middle of a step, ([\d.]+) tokens a second are expected of it; islands do ([\d.]+) times/.exec(reasons[0]) ?? [];
  const stays = Math.exp(-synchronous.stepSeconds / (donor === 'a' ? 100 : 3_600));
  expect(Number(expected) / (synchronous.tokensPerSecond * stays)).toBeCloseTo(1, 3);
  expect((Number(times) * Number(expected)) / predicted.expectedTokensPerSecond).toBeCloseTo(1, 2);
});

it('K islands of H steps are K, and a table is for people', async () => {
  expect(await plan({ islands: { count: 5, innerSteps: 10 } }, CLUSTER, ['--json'])).toBe(0);
  const { islands } = JSON.parse(command.out);
  expect(islands).toHaveLength(5);
  command.out = '';
  expect(
    await plan({ islands: { count: 2, innerSteps: 10 } }, CLUSTER, ['--seconds', '0.1', '--what-if', 'add 1 like a']),
  ).toBe(0);
  expect(command.out).toMatch(/tokens a second: 2 islands of 10 steps each, a round of .* m?s of it the meeting/);
  expect(command.out).toMatch(/before the change: .* tokens a second/);
  expect(command.out).toMatch(/`shoal swarm --plan` runs these islands as planned here/);
  expect(command.out.split('\n')[1]).toMatch(/^Counting that donors leave in the middle of a round, .* are expected/);
});

it('the table and the reasons number islands alike, and say of auto that a run makes its groups by itself', async () => {
  expect(await plan({ islands: { count: 'auto', roundSeconds: 60 } }, CLUSTER)).toBe(0);
  const numbers = (pattern: RegExp): (string | undefined)[] =>
    [...command.out.matchAll(pattern)].map(([, peer, island]) => `${peer} ${island}`);
  const inTable = [...command.out.matchAll(/^(\d+) +([a-c]) /gm)].map(([, island, peer]) => `${peer} ${island}`);
  expect(inTable).toHaveLength(3);
  expect(numbers(/^([a-c]): island (\d+),/gm)).toEqual(inTable);
  expect(command.out).toContain('3 islands of 3 donors, each alone.');
  expect(command.out).toMatch(/^A run makes its groups like this by what its donors measure/m);
  command.out = '';
  expect(await plan({ islands: { count: 5, innerSteps: 10 } }, CLUSTER)).toBe(0);
  expect(command.out).toMatch(/: islands 1 and 2 by turns, alone, 20 steps of/);
  command.out = '';
  expect(await plan({ islands: { count: 5, innerSteps: 10, overlap: true } }, CLUSTER)).toBe(0);
  expect(command.out).toMatch(/: 5 islands of 10 steps each, a round of .* s, beside it the meeting of .* m?s$/m);
});

it('says how the stream between two donors goes, and over how many connections', async () => {
  const peers = ['a', 'b'].map((id) => ({ id, memoryBytes: 6.5e6, flopsPerSecond: 2e9 }));
  // Too slow for a step in a round; it has room for what an owner keeps.
  peers.push({ id: 'c', memoryBytes: 1e8, flopsPerSecond: 1e4 });
  const links = { default: { latencySeconds: 0.05, bytesPerSecond: 1e6, windowBytes: 4e4 } };
  expect(
    await plan({ islands: { count: 'auto', roundSeconds: 60 } }, { peers, links }, ['--seconds', '0.1', '--json']),
  ).toBe(0);
  // A window of 40 kB every 0.1 s is 0.4 MB a second: three reach the link's rate.
  expect(JSON.parse(command.out).islands[0].links.toSorted(byEnd)).toEqual([
    { from: 'a', to: 'b', wire: 'f32', streams: 3 },
    { from: 'b', to: 'a', wire: 'f32', streams: 3 },
  ]);
});

const byEnd = (one: { from: string }, other: { from: string }): number => (one.from < other.from ? -1 : 1);

it.each([
  [{ count: 'auto', roundSeconds: 0 }, 'train.islands.roundSeconds must be a number above 0, at most 86400, not 0'],
  [
    { count: 'auto', roundSeconds: 86_401 },
    'train.islands.roundSeconds must be a number above 0, at most 86400, not 86401',
  ],
  [{ count: 'some', innerSteps: 3 }, 'train.islands.count must be a positive integer'],
  [
    { count: 'auto', roundSeconds: 300, innerSteps: 6 },
    'train.islands.innerSteps does not go with count "auto": roundSeconds says',
  ],
  [
    { count: 'auto', rounds: 6 },
    'train.islands.rounds is unknown: expected one of count, innerSteps, roundSeconds, outer, exchange, publish, overlap',
  ],
  [{ count: 2, roundSeconds: 3 }, 'train.islands.roundSeconds goes only with count "auto"'],
  [{ count: 'auto', exchange: 'f64' }, 'train.islands.exchange must be'],
  [{ count: 'auto', outer: 3 }, 'train.islands.outer must be an object'],
])('refuses islands %j in a sentence', async (islands, sentence) => {
  expect(await plan({ islands }, CLUSTER)).toBe(2);
  expect(command.errors).toContain(sentence);
});

it('idle donors are told once, and no line is infinite', async () => {
  const idle = ['d', 'e', 'f', 'g', 'h'].map((id) => ({ id, memoryBytes: 1e5, flopsPerSecond: 1e9 }));
  const peers = [...CLUSTER.peers, ...idle];
  expect(
    await plan({ islands: { count: 'auto', roundSeconds: 60 } }, { ...CLUSTER, peers }, ['--seconds', '0.1']),
  ).toBe(0);
  expect(command.out).toMatch(/; 5 donors left over compute nothing\./);
  expect(command.out).toMatch(
    /^5 donors compute nothing \(d, e, f, g, …\), each because its memory does not hold one layer/m,
  );
  expect(command.out).not.toMatch(/Infinity|e-\d/);
});

it('refuses peers of whom no group has room', async () => {
  const small = { peers: [{ id: 'a', memoryBytes: 1e5, flopsPerSecond: 1e9 }] };
  expect(await plan({ islands: { count: 'auto' } }, small)).toBe(2);
  expect(command.errors).toMatch(
    /cluster\.json: no group of these peers has room for an island: "a" alone, .* hostBytes/,
  );
});
