/**
 * `shoal bench planner --steady N`: does the predicted step ever get longer where a cluster gets more? By two searches
 * that do not know of each other, and as it is searched where both are seen: begun with the plan before.
 */

import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { type ClusterPlan, planCluster } from '../../swarm/planner/clusterPlan.ts';
import { quickWork } from '../../swarm/planner/search.ts';
import { steadyCase } from '../../swarm/testing/steadyClusters.ts';

/** A step that is longer by less is as long. */
const TOLERANCE = 1.02;

interface Steadiness {
  readonly clusters: number;
  /** Clusters and changes after which the step is more than a fiftieth longer, the worst first. */
  readonly longer: readonly { readonly seed: number; readonly change: string; readonly ratio: number }[];
  readonly compared: number;
  /** The largest ratio where the search began with the plan before. */
  readonly begun: number;
}

export function steadiness(clusters: number): Steadiness {
  const longer: { seed: number; change: string; ratio: number }[] = [];
  let [compared, begun] = [0, 0];
  for (let seed = 1; seed <= clusters; seed++) {
    const { problem, richer } = steadyCase(seed);
    const before = planned(problem);
    if (before === null) continue;
    for (const { name, problem: more } of richer) {
      const ratio = stepSeconds(more) / before.predicted.stepSeconds;
      begun = Math.max(begun, stepSeconds({ ...more, inForce: before.plan }) / before.predicted.stepSeconds);
      compared++;
      if (ratio > TOLERANCE) longer.push({ seed, change: name, ratio });
    }
  }
  return { clusters, compared, begun, longer: longer.sort((a, b) => b.ratio - a.ratio) };
}

function planned(problem: ClusterProblem): ClusterPlan | null {
  const work = quickWork(problem.cluster.peers.length);
  const found = planCluster(problem, (progress) => progress.work < work);
  return found.ok ? found.value : null;
}

const stepSeconds = (problem: ClusterProblem): number =>
  planned(problem)?.predicted.stepSeconds ?? Number.POSITIVE_INFINITY;

export function steadinessWords({ clusters, compared, longer, begun }: Steadiness): string {
  const seeds = new Set(longer.map(({ seed }) => seed)).size;
  const worst = longer
    .slice(0, 10)
    .map(({ seed, change, ratio }) => `cluster ${seed}, ${change}: ${ratio.toFixed(2)} ×`);
  return [
    `${clusters} clusters, ${compared} times a peer, memory or a faster link more: the step is over 2 % longer ${longer.length} times, in ${seeds} clusters`,
    `begun with the plan before, the step is at most ${begun.toFixed(3)} × as long`,
    ...worst,
  ].join('\n');
}
