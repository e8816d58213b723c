import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { firstLayers, recomputing } from '../schedule/recompute.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { clusterCosts } from './clusterCosts.ts';
import { equalSplit } from './equalSplit.ts';
import { forecast, predictedTimeline } from './forecast.ts';

const [A, B] = [peerId('a'), peerId('b')];
const model = outlineModel(6, false);
const batch = { samples: 2, sequence: 4 };
/** Of one sample through one layer. */
const FORWARD = 1;
const problem = {
  model,
  batch,
  cluster: {
    peers: [A, B].map((id) => ({
      ...{ id, memoryBytes: 1e9, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [FORWARD], backwardSecondsPerLayer: [2 * FORWARD] },
    })),
    links: { default: {}, regions: [], pairs: [] },
  },
};
const costs = clusterCosts(problem);

test.each([
  [0, 0, 0],
  [1, 1, 0],
  [3, 1, 2],
])('of %i layers computed again R is predicted with %i, the backward with %i', (layers, ahead, within) => {
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

test('a step is predicted with the report on its way to the server, and the commit on its way back', () => {
  const plan = equalSplit(model, batch.samples, [A, B], { microBatches: 2 });
  const seconds = (a: number, b: number): number =>
    forecast(
      clusterCosts({
        ...problem,
        serverSeconds: new Map([
          [A, a],
          [B, b],
        ]),
      }),
      plan,
    ).stepSeconds;
  const here = forecast(costs, plan).stepSeconds;
  expect(seconds(0, 0)).toBe(here);
  expect(seconds(0.3, 0.3)).toBeCloseTo(here + 0.6, 9);
  // Each barrier waits for whoever is last.
  expect(seconds(1_000, 0)).toBeGreaterThanOrEqual(here + 1_000);
  expect(seconds(1_000, 1_000)).toBeCloseTo(here + 2_000, 6);
});

test('who keeps state and computes nothing is waited for: its slices after the work, its values after the update', () => {
  const split = equalSplit(model, batch.samples, [A], { microBatches: 1 });
  const elements = model.blocks.reduce((sum, block) => sum + block.elements, 0);
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map(({ range }) => ({ peer: B, range, replicas: [] })),
  }));
  const [download, upload, latencySeconds] = [1e5, 4e4, 0.02];
  const step = (plan: Plan, caps: { uploadBytesPerSecond: number | null; downloadBytesPerSecond: number | null }) => {
    const measured = { forwardSecondsPerLayer: [FORWARD], backwardSecondsPerLayer: [2 * FORWARD] };
    const peers = [
      { id: A, memoryBytes: 1e9, uploadBytesPerSecond: null, downloadBytesPerSecond: null, measured },
      { id: B, memoryBytes: 1e9, ...caps, measured },
    ];
    const links = { default: { latencySeconds }, regions: [], pairs: [] };
    return forecast(clusterCosts({ model, batch, cluster: { peers, links } }), plan).stepSeconds;
  };
  const open = { uploadBytesPerSecond: null, downloadBytesPerSecond: null };
  const alone = step(split, open);
  const [free, slow] = [open, { uploadBytesPerSecond: upload, downloadBytesPerSecond: download }].map((caps) =>
    step({ ...split, state }, caps),
  );
  expect(free).toBeCloseTo(alone + 2 * latencySeconds, 6);
  expect(slow).toBeCloseTo(alone + 2 * latencySeconds + (4 * elements) / download + (4 * elements) / upload, 6);
});
