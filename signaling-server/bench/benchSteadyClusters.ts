/**
 * `shoal bench planner --steady N`: does the predicted step ever get longer where a cluster gets more? Searched as `shoal
 * plan` searches, in two ways: begun with the plan before, as wherever both are seen, and by two searches that do not know
 * of each other.
 */

import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { type ClusterPlan, planCluster } from '../../swarm/planner/clusterPlan.ts';
import { steadyCase } from '../../swarm/testing/steadyClusters.ts';

/** A step that is longer by less is as long. */
const TOLERANCE = 1.02;

/** The step after a change over the step before it. */
interface Change {
  readonly seed: number;
  readonly change: string;
  readonly begun: number;
  readonly apart: number;
}

interface Way {
  /** Changes after which the step is more than a fiftieth longer, and in how many clusters. */
  readonly longer: number;
  readonly clusters: number;
  readonly most: number;
}

interface Steadiness {
  readonly clusters: number;
  readonly compared: number;
  readonly begun: Way;
  readonly apart: Way;
  readonly worst: readonly Change[];
}

/** `drafts` of each search, in place of a quick one's; clusters from this seed on. */
interface SteadyOptions {
  readonly clusters: number;
  readonly from: number;
  readonly drafts?: number | undefined;
}

export function steadiness({ clusters, from, drafts }: SteadyOptions): Steadiness {
  const changes: Change[] = [];
  for (let seed = from; seed < from + clusters; seed++) changes.push(...changesOf(seed, drafts));
  const worst = changes.toSorted((a, b) => b.apart - a.apart).filter(({ apart }) => apart > TOLERANCE);
  return {
    clusters,
    compared: changes.length,
    begun: wayOf(changes, ({ begun }) => begun),
    apart: wayOf(changes, ({ apart }) => apart),
    worst,
  };
}

function wayOf(changes: readonly Change[], ratioOf: (change: Change) => number): Way {
  const longer = changes.filter((change) => ratioOf(change) > TOLERANCE);
  return {
    longer: longer.length,
    clusters: new Set(longer.map(({ seed }) => seed)).size,
    most: Math.max(0, ...changes.map(ratioOf)),
  };
}

function changesOf(seed: number, drafts: number | undefined): Change[] {
  const { problem, richer } = steadyCase(seed);
  const before = planned(problem, drafts);
  if (before === null) return [];
  const ratio = (of: ClusterProblem): number =>
    (planned(of, drafts)?.predicted.stepSeconds ?? Number.POSITIVE_INFINITY) / before.predicted.stepSeconds;
  return richer.map(({ name, problem: more }) => ({
    seed,
    change: name,
    begun: ratio({ ...more, inForce: before.plan }),
    apart: ratio(more),
  }));
}

function planned(problem: ClusterProblem, drafts: number | undefined): ClusterPlan | null {
  const found = planCluster(problem, ({ work, isQuick }) => (drafts === undefined ? isQuick : work < drafts));
  return found.ok ? found.value : null;
}

export function steadinessWords({ clusters, compared, begun, apart, worst }: Steadiness): string {
  const words = ({ longer, clusters, most }: Way): string =>
    `over 2 % longer ${longer} times, in ${clusters} clusters, at most ${most.toFixed(3)} ×`;
  return [
    `${clusters} clusters, ${compared} times a peer, memory or a faster link more. The step`,
    `begun with the plan before: ${words(begun)}`,
    `by two searches apart: ${words(apart)}`,
    ...worst.slice(0, 10).map(({ seed, change, apart }) => `cluster ${seed}, ${change}: ${apart.toFixed(2)} ×`),
  ].join('\n');
}
