/**
 * Seeded clusters whose GPUs have less memory than their best plan takes, were there enough; some give main memory, some links
 * are fast. What makes a model fit, and with whom, differs from one to the next.
 */
import { arrayOf, at, invariant, type Random } from '../base.ts';
import { type Cluster, parseCluster } from '../planner/cluster.ts';
import { type ClusterProblem, clusterCosts } from '../planner/clusterCosts.ts';
import { memoryOf } from '../planner/draft.ts';
import { equalSplit } from '../planner/equalSplit.ts';

/** Of its part of an equal split a GPU has so much at least, and at most. */
const [LEAST, MOST] = [0.65, 1.05];

/** Of 2 to 4 peers. */
export function tightCluster(random: Random, { model, batch }: Pick<ClusterProblem, 'model' | 'batch'>): Cluster {
  const spread = (least: number, most: number) => least * (most / least) ** random();
  const roomy = arrayOf(2 + Math.floor(3 * random()), (index) => {
    const forward = spread(0.02, 0.1);
    const measured = { forwardSecondsPerLayer: [forward], backwardSecondsPerLayer: [2 * forward] };
    return { id: `p${index}`, memoryBytes: 1e15, measured };
  });
  const links = {
    default: { latencySeconds: spread(0.0002, 0.02), bytesPerSecond: spread(1e4, 1e7), windowBytes: null },
  };
  const read = (peers: readonly object[]): Cluster => {
    const found = parseCluster({ peers, links }, 'a tight cluster');
    invariant(found.ok, found.ok ? '' : found.reason);
    return found.value;
  };
  const costs = clusterCosts({ model, batch, cluster: read(roomy) });
  const names = costs.peers.map(({ id }) => id);
  const needs = memoryOf(costs, equalSplit(model, batch.samples, names, { schedule: '1f1b' }));
  return read(
    roomy.map((peer, place) => {
      const bytes = needs.get(at(names, place)) ?? 0;
      const host = random() < 0.45 ? { hostBytes: Math.round(bytes * spread(0.1, 2)) } : {};
      return { ...peer, memoryBytes: Math.round(bytes * spread(LEAST, MOST)), ...host };
    }),
  );
}
