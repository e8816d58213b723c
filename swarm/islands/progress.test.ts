import { expect, test } from 'vitest';
import { islandsOf } from '../testing/islands.ts';
import { progressOf } from './progress.ts';

const train = {
  steps: 100,
  optimizer: {
    type: 'adamw' as const,
    ...{ learningRate: 0.01, betas: [0, 0.5] as [number, number], epsilon: 1e-8, weightDecay: 0 },
  },
  schedule: { type: 'constant' as const, warmupSteps: 0 },
};

test('[SV50] a shard of islands moves no further than meetings can take it', () => {
  const optimizer = { ...train.optimizer, weightDecay: 4 };
  const islands = { ...islandsOf(2, 3), outer: { learningRate: 0.5, momentum: 0.5 } };
  // An island's way in a round: three steps, at the third and the sixth of which an update is √1.75 and √1.96875 at most.
  const way = (sixths: number): number => 3 * 0.01 * Math.sqrt(sixths);
  const first = progressOf({ ...train, optimizer, islands }, 0, 6);
  // Half of D and of half of V, which is D.
  expect(first.reach).toBeCloseTo(0.5 * 1.5 * way(1.75), 12);
  expect(first.decay).toBeCloseTo(0.5 * 1.5 * 3 * 0.01 * 4, 12);
  // In the second round V is D and half of the first one's.
  expect(progressOf({ ...train, islands }, 6, 12).reach).toBeCloseTo(0.5 * 1.75 * way(1.96875), 12);
  expect(progressOf({ ...train, islands }, 0, 12).reach).toBeCloseTo(0.5 * (1.5 + 1.75) * way(1.96875), 12);
  // What the first one left over is sent then at the latest.
  const sparse = { ...islands, exchange: { top: 1, chunk: 8, feedback: 0.5 } };
  expect(progressOf({ ...train, islands: sparse }, 6, 12).reach).toBeCloseTo(0.5 * 1.5 * 1.75 * way(1.96875), 12);
  // Two rounds were left over, by half and by half again; V is as often what was sent.
  const { rounds } = progressOf({ ...train, optimizer, islands: sparse }, 6, 12);
  expect(rounds?.way.reach).toBeCloseTo(way(1.96875), 12);
  expect(rounds?.way.decay).toBeCloseTo(3 * 0.01 * 4, 12);
  expect([rounds?.leftOver, rounds?.velocity]).toEqual([1.5, 1.5 * 1.5]);
});
