import { expect, test } from 'vitest';
import { arrayOf, peerId, totalOf } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { parseCluster } from '../planner/cluster.ts';
import { clusterCosts } from '../planner/clusterCosts.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { replicated } from '../planner/replicas.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { stepTraffic } from './stepTraffic.ts';

const peers = (count: number) => arrayOf(count, (place) => peerId(`p${place}`));
const BATCH = { sequence: 5, wire: 'f32' } as const;

test('two stages of one donor: the stream there and back, nothing of the state', () => {
  const plan = equalSplit(outlineModel(2, false), 6, peers(2), { stages: 2 });
  // 6 samples of 5 positions, 4 wide, 4 bytes each.
  expect(stepTraffic(outlineModel(2, false), plan, BATCH)).toEqual({
    ...{ activation: 6 * 5 * 4 * 4, gradient: 6 * 5 * 4 * 4, slice: 0, values: 0 },
  });
  expect(stepTraffic(outlineModel(2, false), plan, { ...BATCH, wire: 'f16' }).activation).toBe(6 * 5 * 4 * 2);
});

test('a tied table of 40 elements goes to its primary as a gradient, and back as values', () => {
  const model = outlineModel(2, true);
  const plan = equalSplit(model, 6, peers(2), { stages: 2 });
  expect(stepTraffic(model, plan, BATCH)).toMatchObject({ slice: 40 * 4, values: 40 * 4 });
});

test('two lanes send each other the half of every block that is not theirs', () => {
  const model = outlineModel(1, false);
  const plan = equalSplit(model, 6, peers(2), { stages: 1 });
  const elements = totalOf(model.blocks, (block) => block.elements);
  expect(stepTraffic(model, plan, BATCH)).toEqual({
    ...{ activation: 0, gradient: 0, slice: elements * 4, values: elements * 4 },
  });
});

test('the sum is what the planner has each peer send, for up to nine donors', () => {
  const model = modelFromConfig({
    ...{ model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 32 },
    tie_word_embeddings: true,
  });
  if (!model.ok) throw new Error(model.reason);
  const batch = { samples: 12, sequence: 16, wire: 'f32' } as const;
  for (let donors = 1; donors <= 9; donors++) {
    const ids = peers(donors);
    const cluster = parseCluster({ peers: ids.map((id) => ({ id, memoryBytes: 1e9, flopsPerSecond: 1e9 })) }, 'it');
    if (!cluster.ok) throw new Error(cluster.reason);
    const costs = clusterCosts({ model: model.value, batch, cluster: cluster.value });
    for (let count = 0; count <= 2; count++) {
      const wish = { count, isAsked: true, sites: {}, before: null };
      const { plan, forecast } = replicated(costs, equalSplit(model.value, batch.samples, ids), wish);
      const sent = totalOf(forecast.peers.values(), ({ sentBytes }) => sentBytes);
      const { activation, gradient, slice, values } = stepTraffic(model.value, plan, batch);
      expect(activation + gradient + slice + values, `${donors} donors, ${count} replicas`).toBe(sent);
    }
  }
});
