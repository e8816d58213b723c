/** One event being judged: the state so far and the effects so far. `judge` makes it and takes it apart again. */
import { type PeerId, peerId } from '../base.ts';
import type { PlanAnswer } from '../coordinator/events.ts';
import type { Cause, JudgeEffect, JudgeState, RunView } from './judging.ts';
import type { KnownDonor } from './knownDonors.ts';
import { isHeard, type Standing } from './standing.ts';

export interface Judgement {
  state: JudgeState;
  readonly effects: JudgeEffect[];
  readonly run: RunView;
  readonly nowMs: number;
}

/** Whoever speaks of links. */
export const LINKS = peerId('links');

export function change(judgement: Judgement, part: Partial<JudgeState>) {
  judgement.state = { ...judgement.state, ...part };
}

export const donorOf = ({ state }: Judgement, peer: PeerId): KnownDonor | undefined =>
  state.donors.find((donor) => donor.peer === peer);

/** Those of whom `next` makes another. */
export function changeDonors(judgement: Judgement, next: (donor: KnownDonor) => KnownDonor) {
  change(judgement, { donors: judgement.state.donors.map(next) });
}

export const changeDonor = (judgement: Judgement, peer: PeerId, part: Partial<KnownDonor>): void =>
  changeDonors(judgement, (donor) => (donor.peer === peer ? { ...donor, ...part } : donor));

const standingOf = (judgement: Judgement, peer: PeerId): Standing | undefined =>
  peer === LINKS ? judgement.state.linksStanding : donorOf(judgement, peer)?.standing;

export function changeStanding(judgement: Judgement, peer: PeerId, next: (standing: Standing) => Standing) {
  const standing = standingOf(judgement, peer);
  if (standing === undefined) return;
  if (peer === LINKS) change(judgement, { linksStanding: next(standing) });
  else changeDonor(judgement, peer, { standing: next(standing) });
}

export const isAuto = ({ state }: Judgement): boolean => state.config.wishes.auto === true;

/** A reason to look for a better plan. */
export function addCause(judgement: Judgement, cause: Cause) {
  if (isAuto(judgement)) change(judgement, { causes: [...judgement.state.causes, cause] });
}

/** A donor's own word, which counts now or when it is listened to again. */
export function says(judgement: Judgement, by: PeerId, reason: string) {
  const standing = standingOf(judgement, by);
  if (standing === undefined) return;
  if (isHeard(standing, judgement.nowMs)) addCause(judgement, { reason, by });
  else changeStanding(judgement, by, (before) => ({ ...before, unheard: reason }));
}

/** What it said while nobody listened, once it is listened to again. */
export function saysLate(judgement: Judgement, by: PeerId) {
  const standing = standingOf(judgement, by);
  if (!standing || standing.unheard === null || !isHeard(standing, judgement.nowMs)) return;
  addCause(judgement, { reason: standing.unheard, by });
  changeStanding(judgement, by, (before) => ({ ...before, unheard: null }));
}

export function answer(judgement: Judgement, ask: number | null, given: PlanAnswer) {
  judgement.effects.push({ type: 'planned', ask, answer: given });
}
