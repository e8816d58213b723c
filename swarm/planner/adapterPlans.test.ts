import { expect, test } from 'vitest';
import { invariant, peerId, seededRandom } from '../base.ts';
import { predictedBytes } from '../memory/memory.ts';
import { adapterModel } from '../model/adapter.ts';
import { trainedModel } from '../model/matrices.ts';
import { parameters } from '../model/model.ts';
import { problems } from '../plan/plan.ts';
import { SMALL_BATCH, SMALL_MODEL, smallCluster } from '../testing/smallClusters.ts';
import { clusterCosts } from './clusterCosts.ts';
import { planCluster } from './clusterPlan.ts';
import { equalSplit, withAllowedCuts } from './equalSplit.ts';
import { curveAt } from './sizing.ts';

const batch = SMALL_BATCH;

/** Of every linear module, with a rank of 2; of the head alone most stages train nothing. */
const models = [['c_attn', 'c_proj', 'c_fc'], ['lm_head']].map((targets) => {
  const found = adapterModel(SMALL_MODEL, { rank: 2, alpha: 4, targets, rslora: false });
  invariant(found.ok, 'a valid adapter');
  return found.value;
});

test.each(models)('plans of an adapter are valid, and allocated as predicted', (model) => {
  expect(parameters(model)).toBeLessThan(parameters(SMALL_MODEL) / 4);
  for (let seed = 1; seed <= 2; seed++) {
    const cluster = smallCluster(seededRandom(seed), 2 + seed);
    const found = planCluster({ model, batch, cluster }, ({ work }) => work < 600);
    invariant(found.ok, found.ok ? '' : found.reason);
    const { plan, predicted } = found.value;
    expect(problems(model, batch, plan)).toEqual([]);
    for (const { peer, memoryBytes, memoryLimitBytes } of predicted.peers) {
      expect(memoryBytes).toBe(predictedBytes(model, plan, peer, batch.sequence));
      expect(memoryBytes).toBeLessThanOrEqual(memoryLimitBytes);
    }
  }
});

test('a backward by a peak rate makes no gradients of what stands', () => {
  const [model] = models;
  invariant(model, 'a model');
  const { peers } = clusterCosts({ model, batch, cluster: smallCluster(seededRandom(1), 2) });
  const [C, T] = [model.width, batch.sequence];
  // qkv, the way out, the inner product and its way back; then what attention multiplies; then A's and B's of rank 2.
  const own = 2 * (3 + 1 + 4 + 4) * C ** 2;
  const others = 4 * ((T + 1) / 2) * C + 2 * 2 * (4 + 2 + 5 + 5) * C;
  for (const { forward, backward } of peers)
    expect(curveAt(backward, 1) / curveAt(forward, 1)).toBeCloseTo((own + 2 * others) / (own + others), 9);
});

test.each(models)('an equal split has the adapter alone as its state, with Muon at single owners', (model) => {
  const peers = ['a', 'b', 'c'].map(peerId);
  const whole = trainedModel(model, 'muon');
  const plan = withAllowedCuts(whole, undefined, equalSplit(whole, batch.samples, peers));
  expect(problems(whole, batch, plan)).toEqual([]);
  // No more is balanced than the layers, which stand.
  expect(plan.stages.map(({ layers }) => layers)).toEqual(
    equalSplit(SMALL_MODEL, batch.samples, peers).stages.map(({ layers }) => layers),
  );
});
