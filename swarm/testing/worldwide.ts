/**
 * The world-wide cluster of DT-FM (Yuan et al., NeurIPS '22): 64 equal peers in eight regions, with the latencies (ms one
 * way) and rates (Gbit/s) that its authors publish, and layer times of the GPT-XL stages that they measured. For tests
 * and benchmarks.
 */
import { arrayOf, invariant } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { type Cluster, parseCluster } from '../planner/cluster.ts';
import type { ClusterProblem } from '../planner/clusterCosts.ts';

const REGIONS = ['Oregon', 'Virginia', 'Ohio', 'Tokyo', 'Seoul', 'London', 'Frankfurt', 'Ireland'];
const PEERS_A_REGION = 8;
/** Between each region and those after it: ms, Gbit/s. */
const BETWEEN: readonly (readonly (readonly [number, number])[])[] = [
  [
    [67, 0.79],
    [49, 1.1],
    [96, 0.523],
    [124, 0.46],
    [136, 0.42],
    [143, 0.404],
    [124, 0.482],
  ],
  [
    [11, 1.12],
    [143, 0.524],
    [172, 0.5],
    [76, 1.16],
    [90, 1.02],
    [67, 1.05],
  ],
  [
    [130, 0.694],
    [159, 0.529],
    [86, 1.05],
    [99, 0.799],
    [77, 1.14],
  ],
  [
    [34, 1.1],
    [210, 0.366],
    [223, 0.36],
    [199, 0.465],
  ],
  [
    [238, 0.342],
    [235, 0.358],
    [228, 0.335],
  ],
  [
    [14, 1.14],
    [12, 1.09],
  ],
  [[24, 1.08]],
];
const GBIT_BYTES = 1.25e8;
const INSIDE = { latencySeconds: 0.005, bytesPerSecond: 2 * GBIT_BYTES };

function worldwideCluster(): Cluster {
  const peers = REGIONS.flatMap((region) =>
    arrayOf(PEERS_A_REGION, (index) => ({
      id: `${region}-${index}`,
      region,
      memoryBytes: 16e9,
      measured: { forwardSecondsPerLayer: [0.0065], backwardSecondsPerLayer: [0.0195] },
    })),
  );
  const regions = BETWEEN.flatMap((row, from) =>
    row.map(([ms, gigabits], index) => ({
      between: [REGIONS[from], REGIONS[from + 1 + index]],
      latencySeconds: ms / 1000,
      bytesPerSecond: gigabits * GBIT_BYTES,
    })),
  );
  const found = parseCluster({ peers, links: { default: INSIDE, regions } }, 'worldwide');
  invariant(found.ok, found.ok ? '' : found.reason);
  return found.value;
}

/** GPT-XL: 24 layers of 2048. */
export function worldwideProblem(samples: number): ClusterProblem {
  const model = modelFromConfig({
    ...{ model_type: 'gpt2', n_layer: 24, n_head: 16, n_embd: 2048, n_positions: 2048, vocab_size: 50_257 },
    tie_word_embeddings: false,
  });
  invariant(model.ok, model.ok ? '' : model.reason);
  return { model: model.value, batch: { samples, sequence: 2048 }, cluster: worldwideCluster() };
}
