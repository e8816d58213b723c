/** What a plan that the store keeps would take on the donors at hand: the simulator's timeline. */
import type { Plan } from '../swarm/plan.ts';
import { type ClusterProblem, clusterCosts } from '../swarm/planner/clusterCosts.ts';
import { predictedTimeline } from '../swarm/planner/forecast.ts';
import type { WireSpan } from './operatorHistory.ts';
import { wireSpans } from './operatorHistory.ts';

/** Empty where one of its donors is gone. */
export function predictedSpans(problem: ClusterProblem, planText: string): WireSpan[] {
  const plan = JSON.parse(planText) as Plan; // the store's own words
  const known = new Set(problem.cluster.peers.map(({ id }) => id));
  const isKnown = plan.stages.every(({ members }) => members.every(({ peer }) => known.has(peer)));
  return isKnown ? wireSpans(predictedTimeline(clusterCosts(problem), plan)) : [];
}
