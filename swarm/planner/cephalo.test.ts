/**
 * Cephalo's own figures (ICS '25; arXiv 2411.01075), from the measured times and memory that its authors publish: a
 * GPT-2.7B in fp16 with 512 tokens a sample, ms a layer. SEEDS.md has them beside ours.
 */

import { describe, expect, test } from 'vitest';
import { arrayOf, totalOf } from '../base.ts';
import { type Assignment, assign } from './assign.ts';
import { peerCosts, peerTimeMs, roomGiB, type SizingProblem } from './sizing.ts';

type Peer = SizingProblem['peers'][number];

/** Slope and intercept forward, slope and intercept backward, GiB. */
const GPUS = {
  l4: [7.415036, 1.181504, 10.94616, 4.842824, 22.5],
  a6000: [2.835478, 0.664214, 4.22101, 2.404014, 47.99],
  p40: [15.637328, 4.132932, 28.016862, 1.877118, 22.5],
  p100: [15.723824, 2.152596, 23.99483, 8.414502, 12],
} as const;
const ACTIVATION_GIB = [1.1205, 1.49018, 1.8626, 2.23344];
/** Four values of four bytes for each of the parameters. */
const STATE_GIB = (16 * 2_770_621_440) / 2 ** 30;

function peer(gpu: keyof typeof GPUS, index: number): Peer {
  const [forward, forwardFixed, backward, backwardFixed, memoryGiB] = GPUS[gpu];
  return {
    ...{ id: `${gpu}-${index}`, memoryGiB },
    forwardMs: { table: [], slope: forward, intercept: forwardFixed },
    backwardMs: { table: [], slope: backward, intercept: backwardFixed },
    activationGiB: { table: ACTIVATION_GIB },
  };
}

const cluster = (gpus: readonly (keyof typeof GPUS)[], globalBatch: number, communicationMs = 0): SizingProblem => ({
  ...{ globalBatch, layers: 32, stateGiB: STATE_GIB, usableFraction: 0.75, communicationGiB: 2, extraMicroBatchMs: 10 },
  ...{ allGatherMs: communicationMs, reduceScatterMs: communicationMs, unevenFactor: 1.25, recompute: true },
  peers: gpus.map(peer),
});
const FOUR = ['l4', 'l4', 'a6000', 'p40'] as const;
/** The authors' smaller cluster. */
const EIGHT = ['l4', 'l4', 'a6000', 'p40', 'p40', 'p40', 'p100', 'p100'] as const;

function solved(problem: SizingProblem): Assignment {
  const answer = assign(problem);
  if (!answer.ok) throw new Error(answer.reason);
  return answer.value;
}

/** The slowest peer's ms a layer, everyone with these micro-batches. */
const objectiveOf = (problem: SizingProblem, cuts: readonly (readonly [size: number, count: number])[]): number =>
  Math.max(
    ...peerCosts(problem).map((costs, index) => {
      const [size, count] = cuts[index] ?? [0, 0];
      return peerTimeMs(problem, costs, size, count);
    }),
  );

describe('Cephalo’s figures', () => {
  test.each([
    ['64 samples', cluster(FOUR, 64), 342.2968, 5.843],
    ['32 samples', cluster(FOUR, 32), 181.7878, 5.501],
    ['64 samples, 60 ms to gather and to reduce a layer', cluster(FOUR, 64, 60), 342.2968, 5.843],
  ])('two L4, an A6000 and a P40: %s', (_, problem, objectiveMs, samplesPerSecond) => {
    const found = solved(problem);
    expect(found.objectiveMs).toBeCloseTo(objectiveMs, 3);
    expect(found.samplesPerSecond).toBeCloseTo(samplesPerSecond, 3);
    expect(found.leastMs / found.objectiveMs).toBeCloseTo(1, 9);
  });

  test('the largest micro-batches, beside no state and beside an even share', () => {
    const { peers } = solved(cluster(FOUR, 64));
    expect(peers.map(({ maxMicroBatch }) => maxMicroBatch)).toEqual([38, 38, 89, 38]);
    expect(peers.map(({ maxMicroBatchEvenState }) => maxMicroBatchEvenState)).toEqual([10, 10, 61, 10]);
  });

  test('the published sizing takes as long as ours, and needs as much memory as it is said to', () => {
    const problem = cluster(FOUR, 64);
    const published = [
      [6, 2],
      [13, 1],
      [34, 1],
      [5, 1],
    ] as const;
    expect(objectiveOf(problem, published)).toBeCloseTo(solved(problem).objectiveMs, 9);
    const usable = totalOf(problem.peers, ({ memoryGiB }) => 0.75 * memoryGiB);
    expect(usable).toBeCloseTo(86.62, 2);
    const room = peerCosts(problem).reduce((sum, costs, index) => sum + roomGiB(costs, published[index]?.[0] ?? 0), 0);
    expect(usable - room + STATE_GIB).toBeCloseTo(73.8, 2);
  });

  test('an even batch is 2.80 times slower', () => {
    const problem = cluster(FOUR, 64);
    const even = objectiveOf(problem, Array(4).fill([16, 1]));
    expect(even).toBeCloseTo(958.81, 2);
    expect(even / solved(problem).objectiveMs).toBeCloseTo(2.8, 2);
  });

  test('their eight GPUs are twice as fast as with an even batch and an even state', () => {
    const gains = [64, 128, 256].map((globalBatch) => {
      const problem = cluster(EIGHT, globalBatch);
      const share = globalBatch / 8;
      const sizes = arrayOf(share, (index) => index + 1).filter((m) => share % m === 0);
      // Each GPU's fastest cut that fits beside an even share of the state.
      const even = peerCosts(problem).map((costs) => {
        const fitting = sizes.filter((m) => m <= costs.maxMicroBatchEvenState);
        return Math.min(...fitting.map((m) => peerTimeMs(problem, costs, m, share / m)));
      });
      return Math.max(...even) / solved(problem).objectiveMs;
    });
    for (const [index, gain] of [2.01, 2.125, 2.114].entries()) expect(gains[index]).toBeCloseTo(gain, 3);
  });

  test('a P100 whose memory is smaller than its even share still computes', () => {
    const problem = cluster(EIGHT, 128);
    const peers = problem.peers.map((own) => ({ ...own, memoryGiB: own.memoryGiB === 12 ? 7 : own.memoryGiB }));
    const small = solved({ ...problem, peers }).peers.filter(
      ({ maxMicroBatchEvenState }) => maxMicroBatchEvenState === 0,
    );
    expect(small).toHaveLength(2);
    for (const { samples, stateShare } of small) {
      expect(samples).toBeGreaterThan(4);
      expect(stateShare).toBeLessThan(1 / 8);
    }
  });
});
