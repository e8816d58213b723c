/** What happened, or what is predicted to happen: the simulator and the executor both answer with a Timeline. */
import type { PeerId } from './base.ts';
import type { Action } from './schedule/action.ts';

export interface Span {
  readonly peer: PeerId;
  readonly action: Action;
  readonly startSeconds: number;
  readonly endSeconds: number;
}

/** Ordered by start, then by peer. */
export type Timeline = readonly Span[];
