import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { firstLayers, recomputing } from '../schedule/recompute.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { clusterCosts } from './clusterCosts.ts';
import { equalSplit } from './equalSplit.ts';
import { predictedTimeline } from './forecast.ts';

const [A, B] = [peerId('a'), peerId('b')];
const model = outlineModel(6, false);
const batch = { samples: 2, sequence: 4 };
/** Of one sample through one layer. */
const FORWARD = 1;
const costs = clusterCosts({
  model,
  batch,
  cluster: {
    peers: [A, B].map((id) => ({
      ...{ id, memoryBytes: 1e9, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [FORWARD], backwardSecondsPerLayer: [2 * FORWARD] },
    })),
    links: { default: {}, regions: [], pairs: [] },
  },
});

test.each([
  [0, 0, 0],
  [1, 1, 0],
  [3, 1, 2],
])('[ST3] of %i layers computed again R is predicted with %i, the backward with %i', (layers, ahead, within) => {
  const split = equalSplit(model, batch.samples, [A, B], { microBatches: 2 });
  const seconds = (plan: Plan, text: string): number => {
    const span = predictedTimeline(costs, plan).find(({ action }) => formatAction(action) === text);
    return span ? span.endSeconds - span.startSeconds : 0;
  };
  const again = split.stages.flatMap((stage) => firstLayers(stage.layers, layers));
  const plan = recomputing(split, again);
  expect(seconds(plan, '0R0')).toBeCloseTo(ahead * FORWARD, 9);
  expect(seconds(plan, '0B0') - seconds(split, '0B0')).toBeCloseTo(within * FORWARD, 9);
});
