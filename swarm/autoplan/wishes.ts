/**
 * Plans as a command line wishes for them: a pure function of the run, the wishes, the donors' order and the memory they
 * give, never of a measurement.
 */
import { arrayOf, type PeerId, type Result, refusal, success } from '../base.ts';
import type { PlanAnswer, Question } from '../coordinator/events.ts';
import type { BufferLimits } from '../memory/bufferLimits.ts';
import type { Model } from '../model/model.ts';
import { hasOwnEnds, NEEDS_OWN, type OwnEnds } from '../plan/ends.ts';
import { DEFAULT_PAIRS } from '../plan/ownerTable.ts';
import { gathersAny, type Plan, peers, type ScheduleName, seated, type WarmUp } from '../plan/plan.ts';
import { DEFAULT_CHUNKS, donorCapacity, ownedStages, type SplitOptions } from '../planner/equalSplit.ts';
import { fittingSplit, hasPlaces, type MemoryCaps, sentence, shortage } from '../planner/fit.ts';
import type { HostMemory } from '../planner/mainMemory.ts';
import { withoutReplicas } from '../planner/replicas.ts';
import type { LineCaps } from '../planner/streamWires.ts';
import { type Islands, MOST_ISLANDS } from '../run/runFile.ts';
import type { Batch } from './peerProfile.ts';

export interface PlanWishes extends SplitOptions {
  /** For exactly as many donors as it names, in the order in which it names them; others have the equal split, with its gathering and main memory. */
  readonly plan?: Plan;
  /** Of several groups, each for its islands: for exactly as many donors as they name, in the order in which they name them. */
  readonly groupPlans?: readonly Plan[];
  /** The plan of the best predicted step time, from what the donors measured: no other wish counts then. */
  readonly auto?: boolean;
  /** The most groups of donors that have islands of their own; absent: as many as there are islands. */
  readonly groups?: number;
  /** Copies of each shard; absent: `DEFAULT_REPLICAS` where the donors can bear them. A plan that is given has its own. */
  readonly replicas?: number;
}

/**
 * How many groups so many donors make: as many as islands, of one donor at least, or of as many as stages are wished for. One
 * does all islands by turns, and so it does under a plan that is given.
 */
export function groupsWished(
  { plan, groupPlans, stages, auto, groups }: PlanWishes,
  islands: Pick<Islands, 'count'> | undefined,
  donors: number,
): number {
  if (!islands || plan !== undefined) return 1;
  if (groupPlans !== undefined && seatsOf(groupPlans).length === donors) return groupPlans.length;
  const least = auto ? 1 : (stages ?? 1);
  const most = islands.count === 'auto' ? MOST_ISLANDS : islands.count;
  return Math.max(1, Math.min(groups ?? most, most, Math.floor(donors / least)));
}

/** Every donor of some groups, in the order in which their plans name them. */
export const seatsOf = (plans: readonly Plan[]): PeerId[] => plans.flatMap((plan) => peers(plan));

/** Idle donors cost a run nothing: all who come are offered to the planner. */
const AUTO_CAPACITY = 1_000;

/** The most donors that a plan can hold. */
export function capacityOf(model: Pick<Model, 'layers'>, { plan, groupPlans, auto }: PlanWishes): number {
  if (auto) return AUTO_CAPACITY;
  if (groupPlans !== undefined) return seatsOf(groupPlans).length;
  return plan === undefined ? donorCapacity(model) : peers(plan).length;
}

/** For peers in the order they joined, and the bytes that some of them give at most, of their GPUs and of main memory. */
export type MakePlan = (peers: readonly PeerId[], caps: MemoryCaps, hosts?: HostMemory) => Result<Plan>;

/** What else is known of donors, beside what they give; absent: nobody has a cap. */
interface KnownCaps {
  /** On their lines, as they set them. */
  readonly lines?: LineCaps;
  /** On a buffer, of their GPUs. */
  readonly buffers?: BufferLimits;
  /** How a refusal calls a donor; absent: by its place. */
  readonly called?: (peer: PeerId) => string;
  /** Who alone may have the first and last stage; absent, or null: anyone. */
  readonly own?: OwnEnds;
}

interface Nearest {
  readonly options: SplitOptions;
  /** Donors that stay spare for it. */
  readonly fewer: 0 | 1;
  /** What it is, in words; null: what was wished for. */
  readonly text: string | null;
}

/**
 * What to try with so many donors, one after the other. A schedule that was wished for needs so many donors, layers and
 * samples; where those at hand cannot have it, the run goes on with the nearest that they can: fewer pairs or chunks, one
 * donor fewer, then 1f1b, which can always be had. The epoch's reason says so.
 */
function nearestTo(options: SplitOptions, donors: number): readonly Nearest[] {
  const wished: Nearest = { options, fewer: 0, text: null };
  const { schedule, chunks = DEFAULT_CHUNKS, pairs = DEFAULT_PAIRS, stages: _, ...others } = options;
  const last: Nearest = { options: { ...others, schedule: '1f1b' }, fewer: 0, text: '1f1b' };
  switch (schedule) {
    case 'interleaved':
    case 'breadth-first':
      return [
        wished,
        ...below(chunks).map(
          (fewer): Nearest => ({ ...wished, options: { ...others, schedule, chunks: fewer }, text: `chunks ${fewer}` }),
        ),
        last,
      ];
    case 'chimera': {
      const fewer = donors % 2 === 1 && donors > 2 ? 1 : 0;
      const one = fewer === 1 ? 'one donor fewer' : null;
      return [
        { ...wished, fewer, text: one },
        ...below(pairs).map(
          (some): Nearest => ({
            options: { ...others, schedule, pairs: some },
            fewer,
            text: [one, `pairs ${some}`].filter((part) => part !== null).join(', '),
          }),
        ),
        last,
      ];
    }
    default:
      return [wished];
  }
}

/** What to make for other donors than a plan was made for. */
function optionsOf({ schedule, warmup, stages }: Plan): {
  readonly schedule: ScheduleName;
  readonly chunks?: number;
  readonly pairs?: number;
  readonly warmup?: WarmUp;
} {
  const warm = warmup === undefined ? {} : { warmup };
  const donors = new Set(stages.flatMap(({ members }) => members.map(({ peer }) => peer))).size;
  if (schedule === 'interleaved' || schedule === 'breadth-first')
    return { schedule, chunks: Math.max(1, Math.floor(stages.length / donors)), ...warm };
  if (schedule === 'chimera') return { schedule, pairs: (stages[0]?.members.length ?? 2) / 2, ...warm };
  return { schedule, ...warm };
}

const below = (count: number): number[] => arrayOf(count - 1, (index) => count - 1 - index);

/** As wished for, or none. */
export function planWished(
  model: Model,
  batch: Batch,
  { plan, groupPlans, auto, groups, replicas, ...wishes }: PlanWishes,
  { lines, buffers = new Map(), called, own = null }: KnownCaps = {},
  like: Plan | undefined = plan,
): MakePlan {
  const options = plan === undefined ? wishes : optionsOf(plan);
  return (donors, caps, hosts = new Map()) => {
    if (plan === undefined || donors.length !== peers(plan).length) {
      const run = { model, batch, peers: donors, caps, hosts, buffers, options, called, own, ...(lines && { lines }) };
      if (like === undefined || !hasPlaces(like)) return fittingSplit(run);
      const kept = fittingSplit({ ...run, like, options: stagesLike(like, options) });
      return kept.ok ? kept : fittingSplit(run);
    }
    const given = seated(plan, donors);
    if (!hasOwnEnds(given, own)) return refusal(NEEDS_OWN);
    const lacking = shortage({ model, batch, caps, hosts, buffers }, given);
    return lacking.bytes === 0 ? success(given) : refusal(sentence(lacking, donors, called));
  };
}

/** Where stages gather there are as many of them, so that there is somebody to gather from. */
const stagesLike = ({ stages }: Plan, options: SplitOptions): SplitOptions =>
  ownedStages(1, options) === null && gathersAny(stages) ? { ...options, stages: stages.length } : options;

/** The plan that was wished for, or the nearest that these donors can have. */
export function answerWished(
  question: Question & { readonly inForce: Plan | null },
  model: Model,
  batch: Batch,
  { plan, groupPlans, auto, groups, replicas, ...wishes }: PlanWishes,
  known: KnownCaps = {},
): PlanAnswer {
  const { offer } = question;
  if (plan !== undefined && offer.length === peers(plan).length)
    return answerTo(question, planWished(model, batch, { plan }, known), known);
  const options = plan === undefined ? wishes : optionsOf(plan);
  const tries = nearestTo(options, offer.length);
  for (const [index, { options: tried, fewer, text }] of tries.entries()) {
    const [spare] = fewer === 0 ? [] : spares(question, known);
    const among = fewer === 0 ? offer : offer.filter(({ peer }) => peer !== spare);
    const makePlan = planWished(model, batch, tried, known, plan);
    const isLast = index === tries.length - 1;
    if (
      !isLast &&
      !makePlan(
        among.map(({ peer }) => peer),
        capsOf(question),
        hostsOf(question),
      ).ok
    )
      continue;
    const answer = answerTo({ ...question, offer: isLast ? offer : among }, makePlan, known);
    if (text === null || answer.answer !== 'plan') return answer;
    return { ...answer, instead: `these donors cannot have ${options.schedule} as asked for: ${text}` };
  }
  return answerTo(question, planWished(model, batch, wishes, known), known);
}

/** A plan of as many donors as one can be made for; a newcomer is a reason to change where more compute then. */
export function answerTo(
  question: Question & { readonly inForce: Plan | null },
  makePlan: MakePlan,
  known: KnownCaps = {},
): PlanAnswer {
  const { purpose, offer, inForce } = question;
  const plan = largestPlan(question, makePlan, known);
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

/** Of main memory. */
export const hostsOf = ({ offer }: Question): HostMemory =>
  new Map(offer.flatMap(({ peer, hostBytes = 0 }) => (hostBytes > 0 ? [[peer, hostBytes]] : [])));

function largestPlan(question: Question, makePlan: MakePlan, known: KnownCaps): Result<Plan> {
  const [caps, hosts] = [capsOf(question), hostsOf(question)];
  let rest = question.offer.map(({ peer }) => peer);
  if (rest.length === 0) return refusal('there is no donor');
  const largest = makePlan(rest, caps, hosts);
  if (largest.ok) return largest;
  for (const spare of spares(question, known)) {
    rest = rest.filter((peer) => peer !== spare);
    const smaller = rest.length === 0 ? largest : makePlan(rest, caps, hosts);
    if (smaller.ok) return smaller;
  }
  return largest;
}

/** Whom a plan may do without: where ends are the operator's own strangers first, then those with the smallest buffers first, then those who give least, of equals the last one to come. */
function spares({ offer }: Question, { buffers = new Map(), own = null }: KnownCaps): PeerId[] {
  const trusted = (peer: PeerId): number => (own?.has(peer) ? 1 : 0);
  const takes = (peer: PeerId): number => buffers.get(peer)?.bufferBytes ?? Infinity;
  const gives = (bytes: number | null): number => bytes ?? Infinity;
  const order = (a: number, b: number): number => (a === b ? 0 : a - b);
  return offer
    .filter(({ isNeeded }) => !isNeeded)
    .toReversed()
    .toSorted(
      (a, b) =>
        trusted(a.peer) - trusted(b.peer) ||
        order(takes(a.peer), takes(b.peer)) ||
        order(gives(a.memoryBytes), gives(b.memoryBytes)),
    )
    .map(({ peer }) => peer);
}
