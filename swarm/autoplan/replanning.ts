/** One event being handled: the state so far and the effects so far. `replan` makes it and takes it apart again. */
import { type PeerId, peerId } from '../base.ts';
import type { PlanAnswer } from '../coordinator/events.ts';
import { hasOwnEnds, NEEDS_OWN, type OwnEnds } from '../plan/ends.ts';
import type { KnownDonor } from './knownDonors.ts';
import { predictedOf } from './predicting.ts';
import type { Cause, Found, MadePlan, ReplannerEffect, ReplannerState, RunView } from './replannerState.ts';
import { isHeard, type Standing } from './standing.ts';

/** Plans that came out of a search: the one in force, the one that may take over, and those that both replace. */
const MADE_KEPT = 4;

export interface Replanning {
  state: ReplannerState;
  readonly effects: ReplannerEffect[];
  readonly run: RunView;
  readonly nowMs: number;
}

/** Whoever speaks of links. */
export const LINKS = peerId('links');

export function change(replanning: Replanning, part: Partial<ReplannerState>) {
  replanning.state = { ...replanning.state, ...part };
}

export const donorOf = ({ state }: Replanning, peer: PeerId): KnownDonor | undefined =>
  state.donors.find((donor) => donor.peer === peer);

/** Those of whom `next` makes another. */
export function changeDonors(replanning: Replanning, next: (donor: KnownDonor) => KnownDonor) {
  change(replanning, { donors: replanning.state.donors.map(next) });
}

export const changeDonor = (replanning: Replanning, peer: PeerId, part: Partial<KnownDonor>): void =>
  changeDonors(replanning, (donor) => (donor.peer === peer ? { ...donor, ...part } : donor));

const standingOf = (replanning: Replanning, peer: PeerId): Standing | undefined =>
  peer === LINKS ? replanning.state.linksStanding : donorOf(replanning, peer)?.standing;

export function changeStanding(replanning: Replanning, peer: PeerId, next: (standing: Standing) => Standing) {
  const standing = standingOf(replanning, peer);
  if (standing === undefined) return;
  if (peer === LINKS) change(replanning, { linksStanding: next(standing) });
  else changeDonor(replanning, peer, { standing: next(standing) });
}

export const isAuto = ({ state }: Replanning): boolean => state.config.wishes.auto === true;

/** A reason to look for a better plan. */
export function addCause(replanning: Replanning, cause: Cause) {
  if (isAuto(replanning)) change(replanning, { causes: [...replanning.state.causes, cause] });
}

/** A donor's own word, which counts now or when it is listened to again. */
export function suggestReplan(replanning: Replanning, by: PeerId, reason: string) {
  const standing = standingOf(replanning, by);
  if (standing === undefined) return;
  if (isHeard(standing, replanning.nowMs)) addCause(replanning, { reason, by });
  else changeStanding(replanning, by, (before) => ({ ...before, deferredReason: reason }));
}

/** What it said while nobody listened, once it is listened to again. */
export function suggestDeferredReplan(replanning: Replanning, by: PeerId) {
  const standing = standingOf(replanning, by);
  if (!standing || standing.deferredReason === null || !isHeard(standing, replanning.nowMs)) return;
  addCause(replanning, { reason: standing.deferredReason, by });
  changeStanding(replanning, by, (before) => ({ ...before, deferredReason: null }));
}

/** Who alone may have the first and last stage; null: anyone. */
export const ownAmong = ({ state: { config, donors } }: Replanning): OwnEnds =>
  config.batch.ends === undefined ? null : new Set(donors.flatMap(({ peer, isOwn }) => (isOwn ? peer : [])));

/** Plans are answered with what they are predicted to need. However one was found, no stranger has an end of it. */
export function answer(replanning: Replanning, ask: number | null, made: PlanAnswer) {
  const { state, run } = replanning;
  const isKept = made.answer !== 'plan' || hasOwnEnds(made.plan, ownAmong(replanning));
  const given: PlanAnswer = isKept ? made : { answer: 'none', reason: NEEDS_OWN };
  const told = given.answer === 'plan' ? { ...given, predicted: predictedOf(state, given.plan, run.plan) } : given;
  replanning.effects.push({ type: 'planned', ask, answer: told });
}

/** A plan that came out of a search, or was in force before. */
export function remember(
  replanning: Replanning,
  { plan, reasons, idle }: Extract<Found, { ok: true }>['value'],
  by: readonly PeerId[],
  isAtLength: boolean,
) {
  const all = [...reasons, ...idle.map(({ peer, reason }) => ({ peer, text: `left idle: ${reason}.` }))];
  const made: MadePlan = { plan, reasons: all, by, isAtLength };
  change(replanning, { made: [...replanning.state.made, made].slice(-MADE_KEPT) });
}
