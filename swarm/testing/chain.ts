/**
 * What tests of simulated schedules pose: a chain of peers that are all alike, whose forwards take 1 s and whose backwards
 * 2 s, so that a closed form can be worked out by hand; and the outcome of a problem that is known to be a right one.
 */
import type { ScheduleName } from '../plan/plan.ts';
import { outcomeOf, type SimulationOutcome } from '../simulate/outcome.ts';
import { parseSimulateProblem, type SimulateProblem } from '../simulate/problem.ts';

export const ONE_TWO = { forwardSeconds: 1, backwardSeconds: 2 };
export const upTo = (count: number): number[] => [...Array(count).keys()];

/** `more`: fields of a problem, in place of the chain's own too. */
export function chain(schedule: ScheduleName, peers: number, microBatches: number, more: object = {}): SimulateProblem {
  const stages = upTo(peers).map(() => ONE_TWO);
  const parsed = parseSimulateProblem({ schedule, microBatches, stages, ...more });
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

export function run(given: SimulateProblem): SimulationOutcome {
  const outcome = outcomeOf(given);
  if (!outcome.ok) throw new Error(outcome.reason);
  return outcome.value;
}

export const makespan = (...of: Parameters<typeof chain>): number => run(chain(...of)).makespanSeconds;
