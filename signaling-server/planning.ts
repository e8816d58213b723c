/**
 * How the donors of a run are planned for: what a command line decides, as the coordinator asks it. A pure function of
 * the run, the wishes and the donors' order: never of a measurement.
 */
import { type PeerId, type Result, refusal, success } from '../swarm/base.ts';
import type { Model } from '../swarm/model.ts';
import { type Plan, peers, seated } from '../swarm/plan.ts';
import { donorCapacity, equalSplit, splitProblem } from '../swarm/planner/equalSplit.ts';
import type { ScheduleName } from '../swarm/schedule/action.ts';
import type { RunTerms } from './runStart.ts';

export interface PlanWishes {
  /** The most pipeline stages. */
  readonly stages?: number;
  readonly microBatches?: number;
  readonly schedule?: ScheduleName;
  /** For exactly as many donors as it names, in the order in which it names them; fewer have the equal split. */
  readonly plan?: Plan;
}

export function planTerms(
  model: Model,
  samples: number,
  { plan, ...wishes }: PlanWishes,
): Pick<RunTerms, 'makePlan' | 'capacity'> {
  const places = plan === undefined ? null : peers(plan).length;
  const split = plan === undefined ? wishes : { schedule: plan.schedule };
  const makePlan = (donors: readonly PeerId[]): Result<Plan> => {
    if (plan !== undefined && donors.length === places) return success(seated(plan, donors));
    const problem = splitProblem(model, samples, donors.length, split);
    return problem === null ? success(equalSplit(model, samples, donors, split)) : refusal(problem);
  };
  return { makePlan, capacity: places ?? donorCapacity(model) };
}
