/**
 * Who holds a step up. Heartbeats say how far a member is with it and whom it waits for: who waits for another one is not
 * blamed for that one, nor is who is slow, as long as something of its work is done. What a member says of itself counts
 * against itself alone.
 */
import type { PeerId } from '../base.ts';
import type { StepProgress } from '../messages/messages.ts';
import { lookMs, QUICK_STEP_MS, quietMs } from './deadlines.ts';
import type { Pair } from './events.ts';
import {
  type CoordinatorState,
  membersOf,
  type PlanInForce,
  type Preparing,
  type Training,
  type Watched,
} from './state.ts';

const isSame = (one: StepProgress, other: StepProgress): boolean =>
  one.step === other.step &&
  one.done === other.done &&
  one.hasReported === other.hasReported &&
  one.hasEvaluated === other.hasEvaluated &&
  one.waitsFor.join() === other.waitsFor.join();

/** `patience`: so much longer nobody is looked at, as a step has so much more time. */
export const watchedFrom = (inForce: PlanInForce, now: number, patience = 1): Watched => ({
  ...{ inForce, progress: [], startedAt: now, seen: null },
  lookAt: now + patience * lookMs(inForce, inForce.predicted),
});

const reportedIn = ({ reports }: Training, peer: PeerId): boolean => reports.some((one) => one.peer === peer);

/** It says that it has sent what never came, on a connection that keeps the order. */
const claims = (phase: Training, peer: PeerId, at: StepProgress): boolean =>
  at.hasReported && at.step === phase.step && !reportedIn(phase, peer);

const isTraining = (phase: Watched): phase is Training => 'reports' in phase;

/**
 * Whether a member's heartbeat says anything new of how far it is, where that is heard. Steps that are quick are not looked
 * at.
 */
export function isNews(phase: CoordinatorState['phase'], peer: PeerId, at: StepProgress, now: number): boolean {
  if (!('progress' in phase)) return false;
  if (at.epoch !== phase.inForce.epoch || now < phase.startedAt + QUICK_STEP_MS) return false;
  if (!partakers(phase).includes(peer)) return false;
  const known = phase.progress.find((one) => one.peer === peer);
  return known === undefined || !isSame(known.at, at) || (isTraining(phase) && claims(phase, peer, at));
}

/** What a member says, but for waiting for itself or for who has no part in the plan. */
export const soundProgress = (phase: Watched, peer: PeerId, at: StepProgress): StepProgress => ({
  ...at,
  waitsFor: at.waitsFor.filter((one) => one !== peer && partakers(phase).includes(one)),
});

/** The plan's members, and those who hand their state over to them. */
function partakers(phase: Watched): PeerId[] {
  const givers = isPreparing(phase) && phase.source.from === 'peers' ? membersOf(phase.source.inForce) : [];
  return [...new Set([...membersOf(phase.inForce), ...givers])];
}

const isPreparing = (phase: Watched): phase is Preparing => 'waitingFor' in phase;

/** With what a member says now; `isProven`: a second time it says that it reported what never came. */
export function withProgress<Phase extends Watched>(phase: Phase, peer: PeerId, at: StepProgress, now: number) {
  const known = phase.progress.find((one) => one.peer === peer);
  const said = known !== undefined && isSame(known.at, at) ? known : { peer, at, sinceMs: now };
  const others = phase.progress.filter((one) => one.peer !== peer);
  const isProven = isTraining(phase) && claims(phase, peer, at) && known !== undefined && claims(phase, peer, known.at);
  return { phase: { ...phase, progress: [...others, said] }, isProven };
}

/** It waits for nobody, and has done nothing for so long; or says nothing where half of all speak. */
export function isIdle({ inForce, progress, startedAt }: Watched, peer: PeerId, quiet: number, now: number): boolean {
  const said = progress.find((one) => one.peer === peer);
  if (said === undefined) return 2 * progress.length >= membersOf(inForce).length && now - startedAt >= quiet;
  return said.at.waitsFor.length === 0 && now - said.sinceMs >= quiet;
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
 * Who is stuck, once it waits for nobody, and does nothing, or says nothing where others speak of the step.
 * Who is still at the step before may have much to do there that it does not count, and says so: that is a proof only where
 * all others wait, and one of them for it.
 */
export function stuckIn(phase: Training, now: number): PeerId[] {
  const members = membersOf(phase.inForce);
  const othersSay = 2 * phase.progress.filter(({ at }) => at.step === phase.step).length >= members.length;
  const quiet = quietMs(phase.inForce, phase.inForce.predicted);
  const stuck = members.filter((peer) => {
    if (reportedIn(phase, peer)) return false;
    const said = phase.progress.find((one) => one.peer === peer);
    if (said === undefined) return othersSay;
    return isIdle(phase, peer, quiet, now) && (said.at.step === phase.step || isWaitedForByAll(phase, members, peer));
  });
  // Where everybody is stuck it is not a donor's doing.
  return stuck.length < members.length ? stuck : [];
}

/**
 * The server sees that it uploads what is behind this step: it is not quiet, whatever its heartbeats say, and if they say
 * nothing. Who has no part in the plan any more has its uploads still to send, and says nothing of this epoch.
 */
export function withWork<Phase extends Watched>(phase: Phase, peer: PeerId, step: number, now: number): Phase {
  const { epoch } = phase.inForce;
  const { at } = phase.progress.find((one) => one.peer === peer) ?? {
    at: { epoch, step, done: 0, waitsFor: [], hasReported: true },
  };
  const others = phase.progress.filter((one) => one.peer !== peer);
  return { ...phase, progress: [...others, { peer, at, sinceMs: now }] };
}

/**
 * Who is stuck with a committed step, of those whose part of it is to be saved: others wait for it, it waits for nobody,
 * and does nothing. Whoever saves already has nothing that others wait for.
 */
export function stuckBehind(phase: Watched, step: number, owing: readonly PeerId[], now: number): PeerId[] {
  const said = phase.progress.filter(({ at }) => at.step === step);
  const isAwaited = (peer: PeerId) => said.some(({ at }) => at.waitsFor.includes(peer));
  return idleAmong(phase, owing, now).filter((peer) => said.some((one) => one.peer === peer) && isAwaited(peer));
}

/**
 * Who is stuck with an evaluation: one that owes its answer, or by its own word is not done with its part, waits for nobody,
 * and does nothing. Null: nobody is seen to be.
 */
export function stuckInEvaluation(phase: Watched, owing: readonly PeerId[], now: number): PeerId | null {
  // One that has the run to itself holds nobody up.
  if (membersOf(phase.inForce).length === 1) return null;
  const undone = phase.progress.flatMap(({ peer, at }) => (at.hasEvaluated ? [] : peer));
  const idle = idleAmong(phase, [...new Set([...owing, ...undone])], now);
  return idle.find((peer) => owing.includes(peer)) ?? idle[0] ?? null;
}

/**
 * Since when nothing moves at a member, by its own word and by the words of those for whom it waits: what is on its way to
 * one is on its way from another, so that a counter which rises at one end alone is a claim.
 */
export function stoodSinceMs({ progress, startedAt }: Watched, peer: PeerId): number {
  const own = progress.find((one) => one.peer === peer);
  if (own === undefined) return startedAt;
  const { waitsFor } = own.at;
  if (waitsFor.length === 0) return own.sinceMs;
  const others = progress.filter((one) => waitsFor.includes(one.peer)).map(({ sinceMs }) => sinceMs);
  return Math.min(own.sinceMs, Math.max(startedAt, ...others));
}

function idleAmong(phase: Watched, among: readonly PeerId[], now: number): PeerId[] {
  const quiet = quietMs(phase.inForce, phase.inForce.predicted);
  return among.filter((peer) => isIdle(phase, peer, quiet, now));
}

/**
 * Of those who are late, and of those for whom they wait by their own words, and so on: who waits for nobody. Whoever
 * answered waits for nobody and is late with nothing. Nobody: the late ones wait for each other in a circle, or for one
 * who says that its part is done.
 */
export function keepingWaiting(phase: Watched, open: readonly PeerId[], late: readonly PeerId[]): PeerId[] {
  const waits = waitsOf(phase, open);
  return [...reached(waits, late)].filter((peer) => open.includes(peer) && waits(peer).length === 0);
}

/** Between whom one word stands against another: who wait for each other in a circle, and who wait for one that answered. */
export function contradictions(phase: Watched, open: readonly PeerId[]): Pair[] {
  const waits = waitsOf(phase, open);
  return open.flatMap((peer) =>
    waits(peer).flatMap((other): Pair[] => {
      const isAgainst = !open.includes(other) || reached(waits, [other]).has(peer);
      return isAgainst ? [[peer, other]] : [];
    }),
  );
}

type Waits = (peer: PeerId) => readonly PeerId[];

/** Of those who have not answered. */
const waitsOf =
  ({ progress }: Watched, open: readonly PeerId[]): Waits =>
  (peer) =>
    (open.includes(peer) && progress.find((one) => one.peer === peer)?.at.waitsFor) || [];

function reached(waits: Waits, from: readonly PeerId[]): Set<PeerId> {
  const found = new Set(from);
  for (const peer of found) for (const other of waits(peer)) found.add(other);
  return found;
}

/** Who is late with a step's end, but for those who wait for others of them; where all do, all of them. */
export function withoutWaiting({ progress }: Watched, late: readonly PeerId[]): readonly PeerId[] {
  const waits = (peer: PeerId): boolean =>
    progress.some((one) => one.peer === peer && one.at.waitsFor.some((other) => late.includes(other)));
  const own = late.filter((peer) => !waits(peer));
  return own.length > 0 ? own : late;
}
