/** What a plan is predicted to take, by what is known of its members. */
import type { PeerId } from '../base.ts';
import type { Predicted } from '../coordinator/events.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { clusterCosts } from '../planner/clusterCosts.ts';
import { forecast } from '../planner/forecast.ts';
import { clusterProblem, searchProblem } from './knownDonors.ts';
import type { ReplannerState } from './replannerState.ts';
import { movingSeconds } from './worth.ts';

function costsOf({ config, donors }: ReplannerState, members: readonly PeerId[], as: 'now' | 'planned') {
  const problem = searchProblem(config, donors, members, new Map(), as);
  return problem.cluster.peers.length < members.length ? null : clusterCosts(clusterProblem(config, problem));
}

/** Seconds of a step, by what is known now (or was, when the plan was made); null where a member measured nothing. */
export function predictedSeconds(state: ReplannerState, plan: Plan, as: 'now' | 'planned' = 'now'): number | null {
  const costs = costsOf(state, peersOf(plan), as);
  return costs && forecast(costs, plan).stepSeconds;
}

/** For deadlines. `inForce`: whose members have the state. */
export function predictedOf(state: ReplannerState, plan: Plan, inForce: Plan | null): Predicted {
  const stepSeconds = predictedSeconds(state, plan);
  const involved = inForce && [...new Set([...peersOf(inForce), ...peersOf(plan)])];
  const costs = involved && costsOf(state, involved, 'now');
  return {
    stepMs: stepSeconds === null ? null : 1_000 * stepSeconds,
    movingMs: costs && inForce ? 1_000 * movingSeconds(costs.model, costs, inForce, plan) : null,
  };
}
