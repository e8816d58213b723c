/** What happened, or what is predicted to happen: the simulator and the executor both answer with a Timeline. */
import type { PeerId } from '../base.ts';
import { type Action, isTransfer } from '../schedule/action.ts';

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
  const mine = timeline.filter((span) => span.peer === peer);
  const backwards = new Map<number, Set<number>>();
  for (const { action } of mine)
    if (action.op === 'B')
      backwards.set(action.stage, (backwards.get(action.stage) ?? new Set()).add(action.microBatch));
  const starts: number[] = [];
  const ends: number[] = [];
  for (const { action, startSeconds, endSeconds } of mine) {
    if (action.op === 'F') starts.push(startSeconds);
    const ended = action.op === 'F' && !backwards.get(action.stage)?.has(action.microBatch);
    if (action.op === 'B' || ended) ends.push(endSeconds);
  }
  starts.sort((a, b) => a - b);
  ends.sort((a, b) => a - b);
  return mostAtOnce(starts, ends);
}

/** Of intervals with these starts and ends, both ascending, an end counting before a start. */
export function mostAtOnce(starts: ArrayLike<number>, ends: ArrayLike<number>): number {
  let peak = 0;
  let ended = 0;
  for (let index = 0; index < starts.length; index++) {
    const start = starts[index] ?? 0;
    while (ended < ends.length && (ends[ended] ?? 0) <= start) ended++;
    peak = Math.max(peak, index + 1 - ended);
  }
  return peak;
}
