/** `shoal bench planner --small N`: the quick search on small clusters, beside the best plan there is and the best symmetric one. */
import { invariant, seededRandom } from '../../swarm/base.ts';
import { clusterCosts } from '../../swarm/planner/clusterCosts.ts';
import { planCluster } from '../../swarm/planner/clusterPlan.ts';
import { leastStepSeconds } from '../../swarm/testing/exhaustive.ts';
import { equalStepSeconds, SMALL_BATCH, SMALL_MODEL, smallCluster } from '../../swarm/testing/smallClusters.ts';

const FIRST_SEED = 100;
const LEAST_PEERS = 2;
/** What is slower by less is as fast: sums in another order differ. */
const ROUNDING = 1e-9;

interface SmallClusters {
  readonly clusters: number;
  readonly mostPeers: number;
  /** The search's step over that of the best plan there is. */
  readonly meanRatio: number;
  readonly mostRatio: number;
  readonly equal: number;
  /** The best symmetric plan's step over the search's, where one fits. */
  readonly meanGain: number;
  readonly leastGain: number;
}

/** Clusters of two to so many peers, in turn. */
export function smallClusters(clusters: number, mostPeers: number): SmallClusters {
  const ratios: number[] = [];
  const gains: number[] = [];
  for (let seed = FIRST_SEED; ratios.length < clusters; seed++) {
    const peers = LEAST_PEERS + (ratios.length % (mostPeers - LEAST_PEERS + 1));
    const cluster = smallCluster(seededRandom(seed), peers);
    const problem = { model: SMALL_MODEL, batch: SMALL_BATCH, cluster };
    const found = planCluster(problem, ({ isQuick }) => isQuick);
    const costs = clusterCosts(problem);
    if (!found.ok) {
      // What fits nobody is another cluster's turn, as long as nothing does.
      const least = leastStepSeconds(costs, Number.POSITIVE_INFINITY);
      invariant(!Number.isFinite(least), `seed ${seed}: a plan of ${least} s was not found: ${found.reason}`);
      continue;
    }
    const { stepSeconds } = found.value.predicted;
    ratios.push(stepSeconds / leastStepSeconds(costs, stepSeconds));
    const symmetric = equalStepSeconds(costs);
    if (Number.isFinite(symmetric)) gains.push(symmetric / stepSeconds);
  }
  const mean = (list: readonly number[]): number => list.reduce((sum, one) => sum + one, 0) / list.length;
  return {
    clusters,
    mostPeers,
    meanRatio: mean(ratios),
    mostRatio: Math.max(...ratios),
    equal: ratios.filter((ratio) => ratio < 1 + ROUNDING).length,
    meanGain: mean(gains),
    leastGain: Math.min(...gains),
  };
}

export const smallClustersWords = (of: SmallClusters): string =>
  `${of.clusters} clusters of ${LEAST_PEERS} to ${of.mostPeers} peers: ${of.meanRatio.toFixed(4)} × the best step there is on average, at most ${of.mostRatio.toFixed(2)} ×, ${of.equal} equal; ${of.meanGain.toFixed(2)} × as fast as the best symmetric plan on average, at least ${of.leastGain.toFixed(2)} ×`;
