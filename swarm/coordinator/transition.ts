/**
 * One event being handled: the state so far and the effects so far. Everything in this folder that decides something
 * takes a transition and moves it on; `step` makes it and takes it apart again, so that from outside nothing ever changes.
 */
import type { PeerId } from '../base.ts';
import { DETAIL_LENGTH_LIMIT } from '../fields.ts';
import type { ServerMessage } from '../messages/messages.ts';
import type { RefusalReason } from '../messages/refusals.ts';
import { peers } from '../plan/plan.ts';
import { timeAfter } from './budget.ts';
import type { Effect } from './events.ts';
import type { CoordinatorState, Donor } from './state.ts';
import { membersInvolved } from './successor.ts';
import { NO_ATTEMPTS } from './trouble.ts';
import { isShort, withCost, withVisit } from './visits.ts';

export interface Transition {
  state: CoordinatorState;
  readonly effects: Effect[];
  readonly now: number;
  readonly groups: AllGroups;
}

/** All groups, this one with them. */
export interface AllGroups {
  readonly count: number;
  /** The highest that any of them has used. */
  readonly usedEpoch: number;
}

export function change(transition: Transition, part: Partial<CoordinatorState>): void {
  const before = transition.state;
  transition.state = timeAfter(before, { ...before, ...part }, transition.now);
}

export const donorOf = ({ state }: Transition, peer: PeerId): Donor | undefined =>
  state.donors.find((donor) => donor.peer === peer);

/** No plan has it for a while. */
export const isAside = (transition: Transition, peer: PeerId): boolean =>
  (donorOf(transition, peer)?.asideUntilMs ?? null) !== null;

export function changeDonor(transition: Transition, peer: PeerId, part: Partial<Donor>): void {
  change(transition, {
    donors: transition.state.donors.map((donor) => (donor.peer === peer ? { ...donor, ...part } : donor)),
  });
}

/** To those of them who are still here. */
export function send(transition: Transition, to: Iterable<PeerId>, message: ServerMessage): void {
  for (const peer of to) if (donorOf(transition, peer)) transition.effects.push({ type: 'send', to: peer, message });
}

/** Nothing of this epoch counts any more. The reason may quote a donor, at any length that donor chose. */
export function sendAbandon(transition: Transition, to: Iterable<PeerId>, epoch: number, reason: string): void {
  send(transition, to, { type: 'abandon', epoch, detail: reason.slice(0, DETAIL_LENGTH_LIMIT) });
}

export function log(transition: Transition, level: 'info' | 'warn', text: string): void {
  transition.effects.push({ type: 'log', level, text });
}

/** A newcomer goes, rests or is late: counted where a plan had it, or was about to have it. */
export function noteVisit(transition: Transition, peer: PeerId): void {
  const { state, now } = transition;
  const donor = donorOf(transition, peer);
  if (!donor?.newcomer || donor.wish !== 'compute') return;
  const { warmingUp } = state;
  const isNeeded =
    membersInvolved(state).includes(peer) || (warmingUp !== null && peers(warmingUp.plan).includes(peer));
  if (!isNeeded) return;
  const costMs = now - Math.max(state.committedMs ?? now, donor.newcomer.sinceMs);
  const wasShort = isShort(donor.newcomer, donor.tokens, now);
  change(transition, { visits: (wasShort ? withVisit : withCost)(state.visits, costMs, now) });
}

export function forget(transition: Transition, peer: PeerId): void {
  noteVisit(transition, peer);
  const { donors, attempts, gathering, faults, relayed } = transition.state;
  change(transition, {
    donors: donors.filter((donor) => donor.peer !== peer),
    attempts: { ...attempts, late: attempts.late.filter((other) => other !== peer) },
    // With whose state another one's did not agree counts when that is with a third's, too.
    faults: faults.filter(({ of, peer: one, about }) => of === 'state' || (one !== peer && about !== peer)),
    relayed: relayed.filter((pair) => !pair.includes(peer)),
    // From now on fewer have to do.
    gathering: gathering === 'whole' ? 'over' : gathering,
  });
}

/** Forgets a donor whose connection is to be closed for a reason. `isProven`: it was shown to harm the run. */
export function refuse(
  transition: Transition,
  peer: PeerId,
  reason: RefusalReason,
  detail: string,
  isProven = false,
): void {
  forget(transition, peer);
  log(transition, 'warn', `${peer} is thrown out: ${detail}.`);
  const atStep = transition.state.committedSteps;
  const proven = isProven ? ({ isProven } as const) : {};
  transition.effects.push({ type: 'refuse', peer, atStep, reason, detail, ...proven });
}

/** A step stands committed, or the operator said so: what went wrong before is forgiven. */
export const forgive = (transition: Transition): void => change(transition, { attempts: NO_ATTEMPTS });
