/**
 * Who holds a step up. Heartbeats say how far a member is with it and whom it waits for: who waits for another one is not
 * blamed for that one, nor is who is slow, as long as something of its work is done. What a member says of itself counts
 * against itself alone.
 */
import type { PeerId } from '../base.ts';
import type { StepProgress } from '../messages/messages.ts';
import { QUICK_STEP_MS, quietMs } from './deadlines.ts';
import { membersOf, type Training } from './state.ts';

const isSame = (one: StepProgress, other: StepProgress): boolean =>
  one.step === other.step &&
  one.done === other.done &&
  one.hasReported === other.hasReported &&
  one.waitsFor.join() === other.waitsFor.join();

const reportedIn = ({ reports }: Training, peer: PeerId): boolean => reports.some((one) => one.peer === peer);

/** It says that it has sent what never came, on a connection that keeps the order. */
const claims = (phase: Training, peer: PeerId, at: StepProgress): boolean =>
  at.hasReported && at.step === phase.step && !reportedIn(phase, peer);

/** Whether a member's heartbeat says anything new of how far it is. Steps that are quick are not looked at. */
export function isNews(phase: Training, peer: PeerId, at: StepProgress, now: number): boolean {
  if (at.epoch !== phase.inForce.epoch || now < phase.startedAt + QUICK_STEP_MS) return false;
  if (!membersOf(phase.inForce).includes(peer)) return false;
  const known = phase.progress.find((one) => one.peer === peer);
  return known === undefined || !isSame(known.at, at) || claims(phase, peer, at);
}

/** With what a member says now; `isProven`: a second time it says that it reported what never came. */
export function withProgress(phase: Training, peer: PeerId, at: StepProgress, now: number) {
  const known = phase.progress.find((one) => one.peer === peer);
  const said = known !== undefined && isSame(known.at, at) ? known : { peer, at, sinceMs: now };
  const others = phase.progress.filter((one) => one.peer !== peer);
  const isProven = claims(phase, peer, at) && known !== undefined && claims(phase, peer, known.at);
  return { phase: { ...phase, progress: [...others, said] }, isProven };
}

/** It is the only one that waits for nobody, and somebody waits for it. */
const isWaitedForByAll = ({ progress }: Training, members: readonly PeerId[], peer: PeerId): boolean => {
  const others = members.flatMap((one) => (one === peer ? [] : (progress.find((said) => said.peer === one)?.at ?? [])));
  return (
    others.length === members.length - 1 &&
    others.every(({ waitsFor }) => waitsFor.length > 0) &&
    others.some(({ waitsFor }) => waitsFor.includes(peer))
  );
};

/**
 * Who is stuck, once a step is late: it waits for nobody, and does nothing, or says nothing where others speak of the step.
 * Who is still at the step before may have much to do there that it does not count, and says so: that is a proof only where
 * all others wait, and one of them for it.
 */
export function stuckIn(phase: Training, now: number): PeerId[] {
  const members = membersOf(phase.inForce);
  const othersSay = 2 * phase.progress.filter(({ at }) => at.step === phase.step).length >= members.length;
  const quiet = quietMs(phase.inForce.slowestMs, phase.inForce.predicted);
  const stuck = members.filter((peer) => {
    if (reportedIn(phase, peer)) return false;
    const said = phase.progress.find((one) => one.peer === peer);
    if (said === undefined) return othersSay;
    if (said.at.waitsFor.length > 0 || now - said.sinceMs < quiet) return false;
    return said.at.step === phase.step || isWaitedForByAll(phase, members, peer);
  });
  // Where everybody is stuck it is not a donor's doing.
  return stuck.length < members.length ? stuck : [];
}
