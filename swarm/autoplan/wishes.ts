/**
 * Plans as a command line wishes for them: a pure function of the run, the wishes, the donors' order and the memory they
 * give, never of a measurement.
 */
import { type PeerId, type Result, refusal, success } from '../base.ts';
import type { PlanAnswer, Question } from '../coordinator/events.ts';
import type { Model } from '../model/model.ts';
import { type Plan, peers, type ScheduleName, seated } from '../plan/plan.ts';
import { donorCapacity } from '../planner/equalSplit.ts';
import { fittingSplit, type MemoryCaps, sentence, shortage } from '../planner/fit.ts';
import { withoutReplicas } from '../planner/replicas.ts';
import type { Batch } from './peerProfile.ts';

export interface PlanWishes {
  /** The most pipeline stages. */
  readonly stages?: number;
  readonly microBatches?: number;
  readonly schedule?: ScheduleName;
  /** For exactly as many donors as it names, in the order in which it names them; fewer have the equal split. */
  readonly plan?: Plan;
  /** The plan of the best predicted step time, from what the donors measured: no other wish counts then. */
  readonly auto?: boolean;
  /** The most groups of donors that have islands of their own; absent: one, which does all islands by turns. */
  readonly groups?: number;
  /** Copies of each shard; absent: `DEFAULT_REPLICAS` where the donors can bear them. A plan that is given has its own. */
  readonly replicas?: number;
}

/** Idle donors cost a run nothing: all who come are offered to the planner. */
const AUTO_CAPACITY = 1_000;

/** The most donors that a plan can hold. */
export function capacityOf(model: Pick<Model, 'layers'>, { plan, auto }: PlanWishes): number {
  if (auto) return AUTO_CAPACITY;
  return plan === undefined ? donorCapacity(model) : peers(plan).length;
}

/** For peers in the order they joined, and the bytes that some of them give at most. */
export type MakePlan = (peers: readonly PeerId[], caps: MemoryCaps) => Result<Plan>;

export function planWished(
  model: Model,
  batch: Batch,
  { plan, auto, groups, replicas, ...wishes }: PlanWishes,
): MakePlan {
  const options = plan === undefined ? wishes : { schedule: plan.schedule };
  return (donors, caps) => {
    if (plan === undefined || donors.length !== peers(plan).length)
      return fittingSplit({ model, batch, peers: donors, caps, options });
    const given = seated(plan, donors);
    const lacking = shortage({ model, batch, caps }, given);
    return lacking.bytes === 0 ? success(given) : refusal(sentence(lacking, donors));
  };
}

/** A plan of as many donors as one can be made for; a newcomer is a reason to change where more compute then. */
export function answerTo(question: Question & { readonly inForce: Plan | null }, makePlan: MakePlan): PlanAnswer {
  const { purpose, offer, inForce } = question;
  const plan = largestPlan(question, makePlan);
  if (purpose === 'arrival') {
    const members = inForce === null ? [] : peers(withoutReplicas(inForce));
    if (!plan.ok || peers(plan.value).length <= members.length) return { answer: 'stays' };
    return { answer: 'plan', plan: plan.value, reason: arrivalReason(offer, members) };
  }
  return plan.ok
    ? { answer: 'plan', plan: plan.value, reason: 'a plan was needed' }
    : { answer: 'none', reason: plan.reason };
}

export function arrivalReason(offer: Question['offer'], members: readonly PeerId[]): string {
  const newcomer = offer.find(({ peer }) => !members.includes(peer));
  return `${newcomer?.peer ?? 'a donor'} joins`;
}

export const capsOf = ({ offer }: Question): MemoryCaps =>
  new Map(offer.flatMap(({ peer, memoryBytes }) => (memoryBytes === null ? [] : [[peer, memoryBytes]])));

function largestPlan(question: Question, makePlan: MakePlan): Result<Plan> {
  const caps = capsOf(question);
  let rest = question.offer.map(({ peer }) => peer);
  if (rest.length === 0) return refusal('there is no donor');
  const largest = makePlan(rest, caps);
  if (largest.ok) return largest;
  for (const spare of spares(question)) {
    rest = rest.filter((peer) => peer !== spare);
    const smaller = rest.length === 0 ? largest : makePlan(rest, caps);
    if (smaller.ok) return smaller;
  }
  return largest;
}

/** Whom a plan may do without: those who give least first, of equals the last one to come. */
function spares({ offer }: Question): PeerId[] {
  const gives = (bytes: number | null): number => bytes ?? Number.POSITIVE_INFINITY;
  const order = (a: number, b: number): number => (a === b ? 0 : a - b);
  return offer
    .filter(({ isNeeded }) => !isNeeded)
    .toReversed()
    .toSorted((a, b) => order(gives(a.memoryBytes), gives(b.memoryBytes)))
    .map(({ peer }) => peer);
}
