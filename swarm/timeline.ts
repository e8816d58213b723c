/** What happened, or what is predicted to happen: the simulator and the executor both answer with a Timeline. */
import type { PeerId } from './base.ts';
import { type Action, formatAction, isTransfer } from './schedule/action.ts';

export interface Span {
  readonly peer: PeerId;
  readonly action: Action;
  readonly startSeconds: number;
  readonly endSeconds: number;
}

/** Ordered by start, then by peer. */
export type Timeline = readonly Span[];

/** The end of the last action. */
export const makespanSeconds = (timeline: Timeline): number =>
  timeline.reduce((latest, { endSeconds }) => Math.max(latest, endSeconds), 0);

/** Time a peer's own work takes. Transfers run beside it and waiting is none. */
export const busySeconds = (timeline: Timeline, peer: PeerId): number =>
  timeline
    .filter((span) => span.peer === peer && !isTransfer(span.action))
    .reduce((sum, { startSeconds, endSeconds }) => sum + endSeconds - startSeconds, 0);

/** The share of the peers' time that is idle: 1 − Σ busy / (peers · makespan). */
export function bubbleRatio(timeline: Timeline, peers: readonly PeerId[]): number {
  const available = peers.length * makespanSeconds(timeline);
  const busy = peers.reduce((sum, peer) => sum + busySeconds(timeline, peer), 0);
  return available === 0 ? 0 : 1 - busy / available;
}

/**
 * Most (stage, micro-batch) pairs of a peer between forward start and backward end, an end counting before a start at
 * the same instant. A pair without a backward ends with its forward.
 */
export function peakInFlight(timeline: Timeline, peer: PeerId): number {
  const events: { readonly seconds: number; readonly change: 1 | -1 }[] = [];
  const mine = timeline.filter((span) => span.peer === peer);
  const backwards = new Set(mine.filter(({ action }) => action.op === 'B').map(({ action }) => formatAction(action)));
  for (const { action, startSeconds, endSeconds } of mine) {
    if (action.op === 'F') {
      events.push({ seconds: startSeconds, change: 1 });
      if (!backwards.has(formatAction({ ...action, op: 'B' }))) events.push({ seconds: endSeconds, change: -1 });
    } else if (action.op === 'B') events.push({ seconds: endSeconds, change: -1 });
  }
  let flying = 0;
  let peak = 0;
  for (const { change } of events.toSorted((a, b) => a.seconds - b.seconds || a.change - b.change)) {
    flying += change;
    peak = Math.max(peak, flying);
  }
  return peak;
}
