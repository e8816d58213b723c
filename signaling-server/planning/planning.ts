/**
 * How the donors of a run are planned for: by what a command line wishes for, or, where the plan of the best predicted step
 * time is wished for, by measurements (autoPlanner.ts).
 */
import type { Batch } from '../../swarm/autoplan/peerProfile.ts';
import { answerTo, capacityOf, type PlanWishes, planWished } from '../../swarm/autoplan/wishes.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { RunTerms } from '../run/runStart.ts';
import { AutoPlanner, type AutoPlannerOptions } from './autoPlanner.ts';
import { searchInSlices } from './planThread.ts';

export type PlanTerms = Pick<RunTerms, 'answer' | 'capacity'> & {
  readonly planner?: AutoPlanner;
};

/** What planning by measurement takes beside the run itself. */
type AutoParts = Pick<AutoPlannerOptions, 'search' | 'release' | 'kept'>;

export function planTerms(model: Model, batch: Batch, wishes: PlanWishes, parts: Partial<AutoParts> = {}): PlanTerms {
  const capacity = capacityOf(model, wishes);
  const makePlan = planWished(model, batch, wishes);
  if (!wishes.auto) return { answer: (wanted) => answerTo(wanted, makePlan), capacity };
  const planner = new AutoPlanner({ model, batch, now: () => performance.now(), search: searchInSlices, ...parts });
  return {
    planner,
    // A newcomer is judged beside the training.
    answer: (wanted) => (wanted.purpose === 'arrival' ? null : answerTo(wanted, planner.makePlan)),
    capacity,
  };
}
