/** Packets that go from every group to every other one, over lines on which they take long. */
import { expect, test } from 'vitest';
import { arrayOf, invariant, total, totalOf } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Cluster, parseCluster } from './cluster.ts';
import { type IslandPlan, type IslandsAsked, planIslands } from './islandPlan.ts';

const made = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 4, n_head: 4, n_embd: 64, n_positions: 64, vocab_size: 256 },
  tie_word_embeddings: false,
});
invariant(made.ok, 'a model');
const MODEL = made.value;
const ELEMENTS = totalOf(MODEL.blocks, ({ elements }) => elements);
const ASKED: IslandsAsked = {
  rounds: { count: 'auto', roundSeconds: 60 },
  outer: { learningRate: 1, momentum: 0.5 },
  exchange: 'f32',
  publish: 'int8',
};
const roomy = { memoryBytes: ELEMENTS * 60, flopsPerSecond: 2e9 };
const alike = (count: number, donor: object): object[] => arrayOf(count, (i) => ({ id: `c${i}`, ...donor }));

function clusterOf(peers: readonly object[]): Cluster {
  const parsed = parseCluster({ peers, links: { default: { latencySeconds: 0.01 } } }, 'cluster.json');
  invariant(parsed.ok, parsed.ok ? '' : parsed.reason);
  return parsed.value;
}

function planned(cluster: Cluster, asked: Partial<IslandsAsked> = {}): IslandPlan {
  const batch = { samples: 8, sequence: 64, wire: 'f32' } as const;
  const found = planIslands({ model: MODEL, cluster, batch }, { ...ASKED, ...asked });
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

test('with K islands of H steps donors whose lines are too slow make none slower', () => {
  const cluster = (count: number): Cluster =>
    clusterOf([
      ...alike(count, { ...roomy, flopsPerSecond: 4e9, uploadBytesPerSecond: 2e3 }),
      ...[...'ab'].map((id) => ({ id, ...roomy, memoryBytes: ELEMENTS * 90, uploadBytesPerSecond: 1e6 })),
    ]);
  const asked = { rounds: { count: 4, innerSteps: 10 } };
  const rate = (count: number): number => planned(cluster(count), asked).predicted.tokensPerSecond;
  expect(rate(1)).toBeGreaterThanOrEqual(rate(0));
});

test('with more donors than can send each other their packets islands are of some of them', () => {
  const line = { uploadBytesPerSecond: 1e5, downloadBytesPerSecond: 1e5 };
  const cluster = (count: number): Cluster => clusterOf(alike(count, { ...roomy, ...line }));
  const rate = (count: number): number => planned(cluster(count)).predicted.tokensPerSecond;
  expect(rate(12)).toBeGreaterThanOrEqual(rate(4));
});

test.each([
  ['with auto', { rounds: { count: 'auto', roundSeconds: 60 } }],
  ['K islands', { rounds: { count: 3, innerSteps: 20 } }],
  ['K islands of few steps', { rounds: { count: 3, innerSteps: 1 } }],
] as const)('with overlap a round is as long as its steps or its meeting: %s', (_, asked) => {
  const cluster = clusterOf(alike(3, { ...roomy, memoryBytes: ELEMENTS * 44, uploadBytesPerSecond: 1e6 }));
  const [one, apart] = [planned(cluster, { ...asked, overlap: true }), planned(cluster, asked)];
  const { roundSeconds, meetingSeconds, tokensPerSecond } = one.predicted;
  const steps = one.islands.map(({ predicted }) => predicted.stepsPerRound);
  const longest = Math.max(...one.islands.map(({ predicted }, i) => (steps[i] ?? 0) * predicted.stepSeconds));
  expect(meetingSeconds).toBeCloseTo(apart.predicted.meetingSeconds, 9);
  expect(roundSeconds).toBeCloseTo(Math.max(longest, meetingSeconds), 9);
  expect(tokensPerSecond).toBeCloseTo((total(steps) * 8 * 64) / roundSeconds, 9);
  expect(tokensPerSecond).toBeGreaterThan(apart.predicted.tokensPerSecond);
});
