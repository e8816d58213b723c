/**
 * Plans of two clusters that are compared: as it is, and as an edit makes it. Two searches that do not know of each other
 * differ by their luck, so that a cluster may seem slower for a peer more. So each cluster is tried with the other's plan.
 */
import type { Result } from '../base.ts';
import { type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type ClusterPlan, planCluster } from './clusterPlan.ts';
import { forecast } from './forecast.ts';
import { withoutReplicas } from './replicas.ts';

type Found = Result<ClusterPlan>;
type Search = (problem: ClusterProblem) => Found | Promise<Found>;

export async function comparedPlans(
  before: ClusterProblem,
  after: ClusterProblem,
  search: Search,
): Promise<{ readonly before: Found; readonly after: Found }> {
  const [first, second] = [await search(before), await search(after)];
  return {
    before: await shorter(before, first, second, search),
    after: await shorter(after, second, first, search),
  };
}

async function shorter(problem: ClusterProblem, own: Found, other: Found, search: Search): Promise<Found> {
  if (!other.ok) return own;
  const tried = { ...problem, inForce: other.value.plan };
  if (!own.ok) return search(tried);
  const found = planCluster(tried, () => false);
  // As the search compares plans: without replicas, of which they may have different numbers.
  const [costs, bare] = [clusterCosts(problem), ({ plan }: ClusterPlan) => withoutReplicas(plan)];
  const seconds = (of: ClusterPlan): number => forecast(costs, bare(of)).stepSeconds;
  // Where the other's plan does not fit, another was found: one that the other cluster does not have.
  const isSame = found.ok && JSON.stringify(bare(found.value)) === JSON.stringify(bare(other.value));
  return isSame && seconds(found.value) < seconds(own.value) ? found : own;
}
