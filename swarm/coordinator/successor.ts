/**
 * Who takes over: which plan this state asks for, and whether the plan in force should give way to one that was found.
 * Pure questions about a state; what is done about the answers is in asking.ts and planInForce.ts.
 */

import type { PeerId } from '../base.ts';
import type { BlockName } from '../model/model.ts';
import type { OwnEnds } from '../plan/ends.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { survivors } from '../plan/survivors.ts';
import { counted } from '../quantityText.ts';
import type { Offered, PlanAnswer, Proposal, Question } from './events.ts';
import { COMMANDED } from './operatorWords.ts';
import { leftBehind, staleOf } from './replicas.ts';
import {
  type Among,
  type CoordinatorState,
  dutiesIn,
  expectedDonors,
  keeperKey,
  membersOf,
  type PlanInForce,
  planInForce,
  shardKey,
  type WarmingUp,
} from './state.ts';

/** Whom the plan that is wanted is made with, where they can do it. */
export const amongOf = ({ phase }: CoordinatorState): Among => (phase.name === 'planning' ? phase.among : 'everyone');

/** Of the donors here who alone may have the first and last stage; null: anyone. */
export const ownEndsIn = ({ config, donors }: CoordinatorState): OwnEnds =>
  config.batch.ends === undefined ? null : new Set(donors.flatMap(({ peer, isOwn }) => (isOwn ? peer : [])));

/** Those who would compute, in the order they joined; the first `most` of them. */
export function willing(state: CoordinatorState, most = Number.POSITIVE_INFINITY, among = amongOf(state)): PeerId[] {
  const { donors, doubt, phase, config } = state;
  // Each island has ends of its own.
  const own = config.train.islands === undefined ? null : ownEndsIn(state);
  const found: PeerId[] = [];
  for (const { peer, wish, asideUntilMs, isApart, newcomer } of donors) {
    if (found.length >= most) break;
    if (own !== null && !own.has(peer)) continue;
    if (wish !== 'compute' || asideUntilMs !== null || isApart || peer === doubt?.suspect) continue;
    if (among === 'everyone' ? 'inForce' in phase && newcomer?.waits : !among.includes(peer)) continue;
    found.push(peer);
  }
  return found;
}

/**
 * With whom the run goes on where its plan cannot: those who had a part in it, newcomers beside their steps alone (CO70).
 * everyone: none of them is left.
 */
export function membersLeft(state: CoordinatorState, before: PlanInForce | null): Among {
  const had = before ?? planInForce(state);
  const members = state.phase.name === 'planning' ? state.phase.among : had && membersOf(had);
  if (members === null || members === 'everyone') return 'everyone';
  return willing(state, 1, members).length > 0 ? members : 'everyone';
}

/** Of these those whom one plan may use: each event asks for them, and thousands may wait. */
export const offerOf = (state: CoordinatorState): PeerId[] => willing(state, state.config.capacity);

function offeredIn(state: CoordinatorState): Offered[] {
  const { donors, gathering } = state;
  const expected = gathering === 'whole' ? expectedDonors(state) : 0;
  const needed = donors.slice(0, expected);
  const offer = offerOf(state);
  return donors.flatMap((donor) => {
    const { peer, memoryBytes, hostBytes } = donor;
    const inHost = hostBytes === undefined ? {} : { hostBytes };
    return offer.includes(peer) ? { peer, memoryBytes, ...inHost, isNeeded: needed.includes(donor) } : [];
  });
}

/** The plan that is wanted; null: none. */
export function questionOf(state: CoordinatorState): Question | null {
  if (state.phase.name === 'planning') return { purpose: 'now', offer: offeredIn(state) };
  const inForce = planInForce(state);
  if (inForce === null || state.operator !== 'run') return null;
  if (departure(state, inForce) !== null)
    return keepersLive(state, inForce) ? { purpose: 'departure', offer: offeredIn(state) } : null;
  const isFull = inForce.duties.length >= state.config.capacity;
  const hasNewcomer = offerOf(state).some((peer) => !dutiesIn(inForce, peer));
  return hasNewcomer && !isFull ? { purpose: 'arrival', offer: offeredIn(state) } : null;
}

const isSameOffer = (one: readonly Offered[], other: readonly Offered[]): boolean =>
  one.length === other.length &&
  one.every(({ peer, isNeeded }, index) => other[index]?.peer === peer && other[index].isNeeded === isNeeded);

export const isSameQuestion = (one: Question, other: Question): boolean =>
  one.purpose === other.purpose && isSameOffer(one.offer, other.offer);

/** A plan for the donors at hand, or that there is none; null: nobody has answered that yet. */
export function planAtHand(state: CoordinatorState): Exclude<PlanAnswer, { answer: 'stays' }> | null {
  const { ask } = state;
  const proposal = openProposal(state);
  if (proposal !== null) return { answer: 'plan', ...proposal };
  if (ask === null || ask.answer === null || ask.answer.answer === 'stays') return null;
  return isSameOffer(ask.offer, offeredIn(state)) ? ask.answer : null;
}

/** Nobody whom it names has gone since. */
function openProposal(state: CoordinatorState): Proposal | null {
  const offer = offerOf(state);
  const { proposal } = state;
  return proposal && peers(proposal.plan).every((peer) => offer.includes(peer)) ? proposal : null;
}

/** Why the plan in force should end at the next boundary. */
interface Interruption {
  readonly reason: string;
  /** The plan that takes over, the state going from peer to peer; null: the state is saved first. */
  readonly successor: Proposal | null;
}

export function interruption(state: CoordinatorState): Interruption | null {
  const inForce = planInForce(state);
  if (inForce === null) return null;
  if (state.operator !== 'run') return { reason: `the operator ${COMMANDED[state.operator]}`, successor: null };
  const leaving = departure(state, inForce);
  if (leaving !== null && !keepersLive(state, inForce)) return { reason: leaving, successor: null };
  const successor = successorOf(state);
  // Copies are made beside the steps, which are worth more than a plan that nothing forces.
  if (leaving === null && inForce.filling !== null) return null;
  // Until it is known who takes over, and they are warm, steps go on.
  if (successor !== null) return isWarm(state, successor.plan) ? { reason: successor.reason, successor } : null;
  return leaving !== null && planAtHand(state)?.answer === 'none' ? { reason: leaving, successor: null } : null;
}

/** The plan that takes over where nothing forces it, warm or not; null: the one in force stays, or nobody knows yet. */
export function successorOf(state: CoordinatorState): Proposal | null {
  const inForce = planInForce(state);
  if (inForce === null || state.operator !== 'run') return null;
  const leaving = departure(state, inForce);
  if (leaving === null) return openProposal(state);
  const found = keepersLive(state, inForce) ? planAtHand(state) : null;
  return found?.answer === 'plan' ? { ...found, reason: leaving } : null;
}

const isWarm = ({ warmingUp }: CoordinatorState, plan: Plan): boolean =>
  warmingUp !== null && warmingUp.waitingFor.length === 0 && isFor(warmingUp, plan);

/** Plans may have been written down and read again. */
export const isFor = (warmingUp: WarmingUp, plan: Plan): boolean =>
  warmingUp.plan === plan || JSON.stringify(warmingUp.plan) === JSON.stringify(plan);

function departure({ donors }: CoordinatorState, inForce: PlanInForce): string | null {
  const wishes = new Map(donors.map(({ peer, wish }) => [peer, wish]));
  for (const peer of membersOf(inForce)) {
    const wish = wishes.get(peer);
    if (wish === undefined) return `${peer} is gone`;
    if (wish !== 'compute') return `${peer} is ${wish}`;
  }
  return null;
}

/** All who have the state of a plan are there. */
export function keepersLive({ donors }: CoordinatorState, inForce: PlanInForce): boolean {
  const here = new Set(donors.map(({ peer }) => peer));
  return membersOf(inForce).every((peer) => here.has(peer));
}

/**
 * The plan with the state at those who are there and have it: none of them is missing where it is the plan itself. Null: a
 * shard is left with nobody.
 */
export function living(
  { donors }: CoordinatorState,
  { plan, lacking }: Pick<PlanInForce, 'plan' | 'lacking'>,
): Plan | null {
  const here = new Set(donors.map(({ peer }) => peer));
  if (staleOf(lacking).length === 0 && peers(plan).every((peer) => here.has(peer))) return plan;
  const without = staleOf(leftBehind(lacking));
  return survivors(
    plan,
    (peer, block, { range }) => here.has(peer) && !without.includes(keeperKey(peer, shardKey(block, range))),
  );
}

/** Blocks a part of which only one donor has by now, though the plan has it copied. */
export function uncopied(state: CoordinatorState): BlockName[] {
  const inForce = keepingState(state);
  const left = inForce === null ? null : living(state, inForce);
  if (inForce === null || left === null || left === inForce.plan) return [];
  return inForce.plan.state.flatMap(({ block, shards }, place) => {
    const now = left.state[place]?.shards ?? [];
    const isAlone = shards.some(({ replicas }, i) => replicas.length > 0 && now[i]?.replicas.length === 0);
    return isAlone ? block : [];
  });
}

/** Nothing where each has a copy. */
export function uncopiedSentence(blocks: readonly BlockName[]): string {
  const [first, ...others] = blocks;
  if (first === undefined) return '';
  const more = others.length > 0 ? ` and ${counted(others.length, 'other block')}` : '';
  return `Only one copy is left of ${first}${more}.`;
}

/**
 * Who loses steps where it vanishes: those who compute with it, or have the state with it that is on its way. Who has it alone
 * may have the only state. Null: it has no part.
 */
export function missedBy(state: CoordinatorState, peer: PeerId): 'others' | 'nobody' | null {
  const involved = membersInvolved(state);
  if (!involved.includes(peer)) return null;
  return involved.length > 1 ? 'others' : 'nobody';
}

/** Everyone who was told of the epoch in progress: the plan's members, and those who hand over to them. */
export function membersInvolved(state: CoordinatorState): PeerId[] {
  const before = givingState(state);
  const inForce = planInForce(state);
  return [...new Set([...(inForce ? membersOf(inForce) : []), ...(before ? membersOf(before) : [])])];
}

/** Its members have the state that a hand-over under way gives to others; null: there is none. */
export function givingState({ phase }: CoordinatorState): PlanInForce | null {
  if (phase.name === 'planning') return phase.before;
  return phase.name === 'preparing' && phase.source.from === 'peers' ? phase.source.inForce : null;
}

/** Its members have the state after the committed steps; null: only the newest checkpoint has it. */
export function keepingState(state: CoordinatorState): PlanInForce | null {
  const { phase } = state;
  if (phase.name === 'preparing' && phase.source.from === 'checkpoint') return null;
  if (phase.name === 'diverged') return phase.before;
  return givingState(state) ?? planInForce(state);
}

/** The same, for the plan that comes next: beside a meeting only keepers take in what comes of it where steps stop. */
export function keepingThrough(state: CoordinatorState): PlanInForce | null {
  const inForce = keepingState(state);
  return inForce !== null && state.outcome !== null ? { ...inForce, keptOnly: true } : inForce;
}

/** What a roll-back is said to come from: that nobody else has a part of the state. */
export function lostReason(state: CoordinatorState, before: PlanInForce, reason: string): string {
  const hasReplicas = before.plan.state.some(({ shards }) => shards.some(({ replicas }) => replicas.length > 0));
  if (!hasReplicas || state.committedSteps === state.newestCheckpointStep) return reason;
  return `${reason}, and nobody else has all that it kept`;
}
