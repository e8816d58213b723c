/** What happened, or what is predicted to happen: the simulator and the executor both answer with a Timeline. */
import type { PeerId } from '../base.ts';
import { type Action, type ComputeAction, isTransfer } from '../schedule/action.ts';

export interface Interval {
  readonly startSeconds: number;
  readonly endSeconds: number;
}

/** Who did which action, from when to when. */
export interface Span extends Interval {
  readonly peer: PeerId;
  readonly action: Action;
}

export interface ComputeSpan extends Span {
  readonly action: ComputeAction;
}

/** Ordered by start, then by peer. */
export type Timeline = readonly Span[];

export const lengthSeconds = ({ startSeconds, endSeconds }: Interval): number => endSeconds - startSeconds;

export const shifted = <T extends Interval>(interval: T, seconds: number): T => ({
  ...interval,
  startSeconds: interval.startSeconds + seconds,
  endSeconds: interval.endSeconds + seconds,
});

export function spansByPeer<T extends Pick<Span, 'peer'>>(timeline: readonly T[]): Map<PeerId, T[]> {
  const found = new Map<PeerId, T[]>();
  for (const span of timeline) {
    const own = found.get(span.peer);
    if (own) own.push(span);
    else found.set(span.peer, [span]);
  }
  return found;
}

/** The end of the last action. */
export const makespanSeconds = (timeline: Timeline): number =>
  timeline.reduce((latest, { endSeconds }) => Math.max(latest, endSeconds), 0);

/** Time that the work takes. Transfers run beside it and waiting is none. */
export const busySeconds = (timeline: Timeline): number =>
  timeline.reduce((sum, span) => (isTransfer(span.action) ? sum : sum + lengthSeconds(span)), 0);

/** The share of these peers' time that is idle: 1 − Σ busy / (peers · makespan). */
export function bubbleRatio(timeline: Timeline, peers: readonly PeerId[]): number {
  const available = peers.length * makespanSeconds(timeline);
  const counted = new Set(peers);
  const busy = busySeconds(timeline.filter(({ peer }) => counted.has(peer)));
  return available === 0 ? 0 : 1 - busy / available;
}
