/**
 * Small random clusters, few enough peers to try every plan, and what the search is measured by on them: the best plan there
 * is, and the best of those that take everyone for equals. For tests and benchmarks.
 */

import { arrayOf, invariant, type Random } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Cluster, parseCluster } from '../planner/cluster.ts';
import type { ClusterCosts } from '../planner/clusterCosts.ts';
import { memoryOf } from '../planner/draft.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { forecast } from '../planner/forecast.ts';
import { DRAFT_SCHEDULES } from '../planner/layout.ts';

const parsed = modelFromConfig({
  model_type: 'gpt2',
  n_layer: 4,
  n_head: 4,
  n_embd: 64,
  n_positions: 64,
  vocab_size: 256,
});
invariant(parsed.ok, 'a model');
export const SMALL_MODEL = parsed.value;
export const SMALL_BATCH = { samples: 8, sequence: 32 };

/** Rates at which computing and sending weigh about the same for this model. */
export function smallCluster(random: Random, count: number): Cluster {
  const spread = (least: number, most: number) => least * (most / least) ** random();
  const regions = ['eu', 'us'];
  const peers = arrayOf(count, (index) => ({
    id: `p${index}`,
    memoryBytes: Math.round(spread(3e6, 3e7)),
    flopsPerSecond: spread(2e7, 1e9),
    uploadBytesPerSecond: spread(3e5, 1e7),
    downloadBytesPerSecond: spread(1e6, 3e7),
    region: regions[Math.floor(2 * random())],
  }));
  const links = { default: { latencySeconds: 0.02, bytesPerSecond: 5e6, windowBytes: 1e5 } };
  const found = parseCluster({ peers, links }, 'a small cluster');
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

/** Step seconds of the best symmetric plan that fits: equal stages and lanes of all peers, either order, any power of two of micro-batches. */
export function equalStepSeconds(costs: ClusterCosts): number {
  const { model, batch, peers } = costs;
  const ids = peers.map(({ id }) => id);
  let best = Infinity;
  for (let stages = 1; stages <= Math.min(model.layers, ids.length); stages++)
    for (const schedule of DRAFT_SCHEDULES)
      for (let microBatches = 1; microBatches <= batch.samples; microBatches *= 2) {
        if (Math.ceil(ids.length / stages) > microBatches) continue;
        const plan = equalSplit(model, batch.samples, ids, { stages, schedule, microBatches });
        const memory = memoryOf(costs, plan);
        if (peers.some(({ id, memoryBytes }) => (memory.get(id) ?? 0) > memoryBytes)) continue;
        best = Math.min(best, forecast(costs, plan).stepSeconds);
      }
  return best;
}
