/**
 * How the donors of a run are planned for: what a command line decides, as the coordinator asks it. A pure function of
 * the run, the wishes, the donors' order and the memory they give: never of a measurement. Only where the plan of the
 * best predicted step time is wished for, measurements decide (autoPlanner.ts).
 */
import type { Batch } from '../../swarm/autoplan/peerProfile.ts';
import { type PeerId, type Result, refusal, success } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { type Plan, peers, seated } from '../../swarm/plan/plan.ts';
import { donorCapacity } from '../../swarm/planner/equalSplit.ts';
import { fittingSplit, type MemoryCaps, sentence, shortage } from '../../swarm/planner/fit.ts';
import type { ScheduleName } from '../../swarm/schedule/action.ts';
import type { RunTerms } from '../run/runStart.ts';
import { AutoPlanner, type AutoPlannerOptions } from './autoPlanner.ts';
import { searchInSlices } from './planThread.ts';

export interface PlanWishes {
  /** The most pipeline stages. */
  readonly stages?: number;
  readonly microBatches?: number;
  readonly schedule?: ScheduleName;
  /** For exactly as many donors as it names, in the order in which it names them; fewer have the equal split. */
  readonly plan?: Plan;
  /** The plan of the best predicted step time, from what the donors measured: no other wish counts then. */
  readonly auto?: boolean;
}

export type PlanTerms = Pick<RunTerms, 'makePlan' | 'capacity' | 'awaitsProposals'> & {
  readonly planner?: AutoPlanner;
};

/** Idle donors cost a run nothing: all who come are offered to the planner. */
const AUTO_CAPACITY = 1_000;

/** What planning by measurement takes beside the run itself. */
type AutoParts = Pick<AutoPlannerOptions, 'search' | 'release' | 'kept'>;

function autoTerms(model: Model, batch: Batch, parts: Partial<AutoParts>): PlanTerms {
  const planner = new AutoPlanner({ model, batch, now: () => performance.now(), search: searchInSlices, ...parts });
  return { planner, makePlan: planner.makePlan, capacity: AUTO_CAPACITY, awaitsProposals: true };
}

export function planTerms(
  model: Model,
  batch: Batch,
  { plan, auto, ...wishes }: PlanWishes,
  parts: Partial<AutoParts> = {},
): PlanTerms {
  if (auto) return autoTerms(model, batch, parts);
  const places = plan === undefined ? null : peers(plan).length;
  const split = plan === undefined ? wishes : { schedule: plan.schedule };
  const makePlan = (donors: readonly PeerId[], caps: MemoryCaps): Result<Plan> => {
    if (plan === undefined || donors.length !== places)
      return fittingSplit({ model, batch, peers: donors, caps, options: split });
    const given = seated(plan, donors);
    const lacking = shortage({ model, batch, caps }, given);
    return lacking.bytes === 0 ? success(given) : refusal(sentence(lacking, donors));
  };
  return { makePlan, capacity: places ?? donorCapacity(model) };
}
