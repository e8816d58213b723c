/**
 * Plans of two clusters that are compared: as it is, and as an edit makes it. Two searches that do not know of each other
 * differ by their luck, so that a cluster may seem slower for a peer more. Here each cluster has the other's plan as well.
 */
import type { Result } from '../base.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type ClusterPlan, planCluster } from './clusterPlan.ts';
import { forecast } from './forecast.ts';
import { withoutReplicas } from './replicas.ts';

interface ComparedPlans {
  readonly before: Result<ClusterPlan>;
  readonly after: Result<ClusterPlan>;
}

export async function comparedPlans(
  before: ClusterProblem,
  after: ClusterProblem,
  search: (problem: ClusterProblem) => Result<ClusterPlan> | Promise<Result<ClusterPlan>>,
): Promise<ComparedPlans> {
  const first = await search(before);
  if (!first.ok) return { before: first, after: await search(after) };
  const second = await search({ ...after, inForce: first.value.plan });
  if (!second.ok) return { before: first, after: second };
  // An edit may take something away: then it is the search after it that begins with less.
  const other = planCluster({ ...before, inForce: second.value.plan }, () => false);
  // As the search compares plans: without replicas, of which they may have different numbers.
  const costs = clusterCosts(before);
  const seconds = ({ plan }: ClusterPlan): number => forecast(costs, withoutReplicas(plan)).stepSeconds;
  const isShorter = other.ok && seconds(other.value) < seconds(first.value);
  return { before: isShorter ? other : first, after: second };
}
