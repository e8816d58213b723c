/**
 * Who takes over: the best plan for those who are there, and whether the plan in force should give way to it. Pure
 * questions about a state; what is done about the answers is in course.ts.
 */
import { type PeerId, type Result, refusal, success } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { MemoryCaps } from '../planner/fit.ts';
import type { Proposal } from './events.ts';
import { type CoordinatorState, type Course, courseOf } from './state.ts';

/** A plan over as many of these peers as one can be made for, the first ones first; else why there is none. */
export function bestPlan(state: CoordinatorState, offer: readonly PeerId[]): Result<Plan> {
  if (offer.length === 0) return refusal('there is no donor');
  const { config, donors, proposal } = state;
  if (proposal && isOpen(proposal, offer)) return success(proposal.plan);
  const caps = new Map(donors.flatMap(({ peer, memoryBytes }) => (memoryBytes === null ? [] : [[peer, memoryBytes]])));
  const largest = config.makePlan(offer, caps);
  if (largest.ok) return largest;
  let rest = offer;
  for (const spare of spares(state, offer, caps)) {
    rest = rest.filter((peer) => peer !== spare);
    const smaller = rest.length === 0 ? largest : config.makePlan(rest, caps);
    if (smaller.ok) return smaller;
  }
  return largest;
}

/** Nobody whom it names has gone since. */
const isOpen = ({ plan }: Proposal, offer: readonly PeerId[]): boolean =>
  peers(plan).every((peer) => offer.includes(peer));

/** Whom a plan may do without: those who give least first, of equals the last one to come. */
function spares(state: CoordinatorState, offer: readonly PeerId[], caps: MemoryCaps): PeerId[] {
  const { config, donors, gathering } = state;
  const expected = gathering === 'whole' ? (config.expectedDonors ?? 0) : 0;
  const needed = new Set(donors.slice(0, expected).map(({ peer }) => peer));
  const gives = (peer: PeerId): number => caps.get(peer) ?? Number.POSITIVE_INFINITY;
  const order = (a: PeerId, b: PeerId): number => (gives(a) === gives(b) ? 0 : gives(a) - gives(b));
  return offer
    .filter((peer) => !needed.has(peer))
    .toReversed()
    .toSorted(order);
}

/** Those a plan may use, in the order they joined. */
export const offerOf = ({ donors, config }: CoordinatorState): PeerId[] =>
  donors.flatMap(({ peer, wish }) => (wish === 'compute' ? peer : [])).slice(0, config.capacity);

/** Why the plan in force should end at the next boundary. */
interface Interruption {
  readonly reason: string;
  /** The plan that takes over, the state going from peer to peer; null: the state is saved first. */
  readonly successor: Plan | null;
}

export function interruption(state: CoordinatorState): Interruption | null {
  const course = courseOf(state);
  if (course === null) return null;
  if (state.operator !== 'run') return { reason: `the operator said ${state.operator}`, successor: null };
  const reason = departure(state, course) ?? (state.config.awaitsProposals ? proposed(state) : arrival(state, course));
  if (reason === null) return null;
  const plan = keepersLive(state, course) ? bestPlan(state, offerOf(state)) : null;
  return { reason, successor: plan?.ok ? plan.value : null };
}

function departure({ donors }: CoordinatorState, { duties }: Course): string | null {
  const wishes = new Map(donors.map(({ peer, wish }) => [peer, wish]));
  for (const peer of duties.keys()) {
    const wish = wishes.get(peer);
    if (wish === undefined) return `${peer} is gone`;
    if (wish !== 'compute') return `${peer} is ${wish}`;
  }
  return null;
}

function proposed(state: CoordinatorState): string | null {
  const { proposal } = state;
  return proposal && isOpen(proposal, offerOf(state)) ? proposal.reason : null;
}

function arrival(state: CoordinatorState, { duties }: Course): string | null {
  const members = duties.size;
  if (members >= state.config.capacity || state.donors.length <= members) return null;
  const offer = offerOf(state);
  const newcomer = offer.find((peer) => !duties.has(peer));
  if (newcomer === undefined) return null;
  const plan = bestPlan(state, offer);
  return plan.ok && peers(plan.value).length > members ? `${newcomer} joins` : null;
}

/** All who have the state of a course are there. */
export const keepersLive = ({ donors }: CoordinatorState, { duties }: Course): boolean =>
  [...duties.keys()].every((peer) => donors.some((donor) => donor.peer === peer));

/** Others compute with it: where it is lost, so are their steps. */
export function isNeeded(state: CoordinatorState, peer: PeerId): boolean {
  const duties = courseOf(state)?.duties;
  return duties !== undefined && duties.size > 1 && duties.has(peer);
}

/** Everyone who was told of the epoch in progress: the plan's members, and those who hand over to them. */
export function membersInvolved(state: CoordinatorState): PeerId[] {
  const course = courseOf(state);
  if (course === null) return [];
  const { phase } = state;
  const before = phase.name === 'preparing' && phase.source.from === 'peers' ? phase.source.course.duties.keys() : [];
  return [...new Set([...course.duties.keys(), ...before])];
}
