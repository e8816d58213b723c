/**
 * A timeline as columns, and what is summed up from them: a million spans are a few arrays of numbers, and objects are
 * made of them only where somebody reads them one by one.
 */
import { arrayOf, at, float, int } from '../base.ts';
import { OP_INDEX } from '../schedule/action.ts';
import { type WorkGraph, workOf } from '../schedule/graph.ts';
import type { Timeline } from './timeline.ts';

/** By the number of the work. */
export interface TimelineColumns {
  readonly startSeconds: Float64Array;
  readonly endSeconds: Float64Array;
}

export const timelineOf = (graph: WorkGraph, columns: TimelineColumns): Timeline =>
  inStartOrder(columns).map((work) => ({
    ...workOf(graph, work),
    startSeconds: float(columns.startSeconds, work),
    endSeconds: float(columns.endSeconds, work),
  }));

/** Work by start, then peer in the schedule's order, then place in the peer's list: work is numbered that way. */
export const inStartOrder = ({ startSeconds }: TimelineColumns, from = 0, to = startSeconds.length): number[] =>
  arrayOf(to - from, (index) => from + index).sort((a, b) => float(startSeconds, a) - float(startSeconds, b) || a - b);

interface PeerLoad {
  readonly busySeconds: number;
  readonly peakInFlight: number;
}

/** Of every peer. Each forward has its backward, and nothing is lowered. */
export const peerLoads = ({ peers, opOf, listFrom }: WorkGraph, columns: TimelineColumns): PeerLoad[] =>
  peers.map((_, peer) => {
    let busySeconds = 0;
    // As a peer does one thing after the other, both are in order.
    const [starts, ends]: [number[], number[]] = [[], []];
    for (const work of inStartOrder(columns, int(listFrom, peer), int(listFrom, peer + 1))) {
      const [start, end] = [float(columns.startSeconds, work), float(columns.endSeconds, work)];
      busySeconds += end - start;
      if (opOf[work] === OP_INDEX.F) starts.push(start);
      else if (opOf[work] === OP_INDEX.B) ends.push(end);
    }
    return { busySeconds, peakInFlight: mostAtOnce(starts, ends) };
  });

/** Of intervals with these starts and ends, both ascending, an end counting before a start. */
export function mostAtOnce(starts: ArrayLike<number>, ends: ArrayLike<number>): number {
  let peak = 0;
  let ended = 0;
  for (let index = 0; index < starts.length; index++) {
    const start = at(starts, index);
    while (ended < ends.length && at(ends, ended) <= start) ended++;
    peak = Math.max(peak, index + 1 - ended);
  }
  return peak;
}
