/**
 * What a free peer does next. A schedule with a fixed order and one that follows messages differ in nothing else: the
 * same work with the same needs, run by the same simulator. See SPEC.md, SI1 and SC16.
 */
import { outside } from '../base.ts';
import type { WorkGraph } from './graph.ts';

export const NO_WORK = -1;

/** Work is named by its number in the graph, a peer by its place there. */
export interface Chooser {
  /** All that this work needs has ended, and its input is here. */
  readonly ready: (work: number) => void;
  readonly started?: (work: number) => void;
  readonly ended?: (work: number) => void;
  /** What the free peer starts now, or NO_WORK. It is asked again when something of the peer's has changed. */
  readonly next: (peer: number) => number;
}

/** How many needs of each piece of work are open, kept up to date; `wake` asks a peer again. */
export interface WorkProgress {
  readonly graph: WorkGraph;
  readonly open: Int32Array;
  readonly wake: (peer: number) => void;
}

export type Policy = (floor: WorkProgress) => Chooser;

/** Each peer runs its list in order. */
export const inListOrder: Policy = ({ graph: { listFrom, peers }, open }) => {
  const reached = listFrom.slice(0, peers.length);
  return {
    ready: () => {},
    next(peer) {
      const work = reached[peer] ?? outside(reached, peer);
      if (work >= (listFrom[peer + 1] ?? outside(listFrom, peer + 1)) || open[work] !== 0) return NO_WORK;
      reached[peer] = work + 1;
      return work;
    },
  };
};
