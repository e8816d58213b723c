/**
 * The outcome of a simulation as columns, and what is summed up from them. Its one idea: a million spans are a few arrays
 * of numbers; objects are made of them only where somebody reads them one by one.
 */

import { mostAtOnce, type Timeline } from '../plan/timeline.ts';
import { OP_INDEX } from '../schedule/action.ts';
import { type WorkGraph, workOf } from '../schedule/graph.ts';

export interface Spans {
  /** Work by start, then peer in the schedule's order, then place in the peer's list: work is numbered that way. */
  readonly order: Int32Array;
  /** By the number of the work. */
  readonly startSeconds: Float64Array;
  readonly endSeconds: Float64Array;
}

export const timelineOf = (graph: WorkGraph, { order, startSeconds, endSeconds }: Spans): Timeline =>
  Array.from(order, (work) => ({
    ...workOf(graph, work),
    startSeconds: startSeconds[work] ?? 0,
    endSeconds: endSeconds[work] ?? 0,
  }));

export interface Tally {
  readonly busySeconds: number;
  readonly peakInFlight: number;
}

/** `busySeconds` and `peakInFlight` of timeline.ts, of every peer in one pass; each forward has its backward, and nothing is lowered. */
export function tallies({ peers, peerOf, opOf, listFrom }: WorkGraph, spans: Spans): Tally[] {
  const { order, startSeconds, endSeconds } = spans;
  const busy = new Float64Array(peers.length);
  // Each peer's, one after the other; as it does one thing after the other, both are in order.
  const [starts, ends] = [new Float64Array(order.length), new Float64Array(order.length)];
  const [startsTo, endsTo] = [listFrom.slice(), listFrom.slice()];
  for (const work of order) {
    const peer = peerOf[work] ?? 0;
    const [start, end] = [startSeconds[work] ?? 0, endSeconds[work] ?? 0];
    busy[peer] = (busy[peer] ?? 0) + (end - start);
    if (opOf[work] === OP_INDEX.F) starts[startsTo[peer]++] = start;
    else if (opOf[work] === OP_INDEX.B) ends[endsTo[peer]++] = end;
  }
  return peers.map((_, peer) => ({
    busySeconds: busy[peer] ?? 0,
    peakInFlight: mostAtOnce(
      starts.subarray(listFrom[peer], startsTo[peer]),
      ends.subarray(listFrom[peer], endsTo[peer]),
    ),
  }));
}

/** Sorts work as it was noted when it started. At one instant peers chose from the last to the first. */
export function inStartOrder(started: Int32Array, startSeconds: Float64Array): Int32Array {
  reverseInstants(started, startSeconds);
  sortNearlySorted(started, startSeconds);
  return started;
}

function reverseInstants(list: Int32Array, seconds: Float64Array): void {
  for (let from = 0, to = 1; from < list.length; from = to++) {
    const now = seconds[list[from] ?? 0];
    while (to < list.length && seconds[list[to] ?? 0] === now) to++;
    for (let low = from, high = to - 1; low < high; low++, high--) {
      const item = list[low] ?? 0;
      list[low] = list[high] ?? 0;
      list[high] = item;
    }
  }
}

/** By seconds, then number. By insertion: work is noted as it starts, so that little has to move. */
function sortNearlySorted(list: Int32Array, seconds: Float64Array): void {
  for (let end = 1; end < list.length; end++) {
    const item = list[end] ?? 0;
    const own = seconds[item] ?? 0;
    let index = end;
    for (; index > 0; index--) {
      const other = list[index - 1] ?? 0;
      const before = (seconds[other] ?? 0) - own;
      if (before < 0 || (before === 0 && other < item)) break;
      list[index] = other;
    }
    list[index] = item;
  }
}
