/**
 * A timeline as columns, and what is summed up from them: a million spans are a few arrays of numbers, and objects are
 * made of them only where somebody reads them one by one.
 */
import { at, outside } from '../base.ts';
import { OP_INDEX } from '../schedule/action.ts';
import { type WorkGraph, workOf } from '../schedule/graph.ts';
import type { Timeline } from './timeline.ts';

export interface TimelineColumns {
  /** Work by start, then peer in the schedule's order, then place in the peer's list: work is numbered that way. */
  readonly order: Int32Array;
  /** By the number of the work. */
  readonly startSeconds: Float64Array;
  readonly endSeconds: Float64Array;
}

export const timelineOf = (graph: WorkGraph, { order, startSeconds, endSeconds }: TimelineColumns): Timeline =>
  Array.from(order, (work) => ({
    ...workOf(graph, work),
    startSeconds: at(startSeconds, work),
    endSeconds: at(endSeconds, work),
  }));

interface PeerLoad {
  readonly busySeconds: number;
  readonly peakInFlight: number;
}

/** Of every peer in one pass. Each forward has its backward, and nothing is lowered. */
export function peerLoads({ peers, peerOf, opOf, listFrom }: WorkGraph, columns: TimelineColumns): PeerLoad[] {
  const { order, startSeconds, endSeconds } = columns;
  const busy = new Float64Array(peers.length);
  // Each peer's, one after the other; as it does one thing after the other, both are in order.
  const [starts, ends] = [new Float64Array(order.length), new Float64Array(order.length)];
  const [startsTo, endsTo] = [listFrom.slice(), listFrom.slice()];
  for (const work of order) {
    const peer = peerOf[work] ?? outside(peerOf, work);
    const start = startSeconds[work] ?? outside(startSeconds, work);
    const end = endSeconds[work] ?? outside(endSeconds, work);
    busy[peer] = (busy[peer] ?? outside(busy, peer)) + (end - start);
    if (opOf[work] === OP_INDEX.F) append(starts, startsTo, peer, start);
    else if (opOf[work] === OP_INDEX.B) append(ends, endsTo, peer, end);
  }
  return peers.map((_, peer) => ({
    busySeconds: at(busy, peer),
    peakInFlight: mostAtOnce(
      starts.subarray(listFrom[peer], startsTo[peer]),
      ends.subarray(listFrom[peer], endsTo[peer]),
    ),
  }));
}

/** Writes where the peer's part of `values` ends so far. */
function append(values: Float64Array, endOf: Int32Array, peer: number, value: number): void {
  const end = endOf[peer] ?? outside(endOf, peer);
  values[end] = value;
  endOf[peer] = end + 1;
}

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

/** Sorts work as it was noted when it started. At one instant peers chose from the last to the first. */
export function inStartOrder(started: Int32Array, startSeconds: Float64Array): Int32Array {
  reverseInstants(started, startSeconds);
  sortNearlySorted(started, startSeconds);
  return started;
}

function reverseInstants(list: Int32Array, seconds: Float64Array): void {
  for (let from = 0, to = 1; from < list.length; from = to++) {
    const now = seconds[list[from] ?? outside(list, from)];
    while (to < list.length && seconds[list[to] ?? outside(list, to)] === now) to++;
    for (let low = from, high = to - 1; low < high; low++, high--) {
      const item = list[low] ?? outside(list, low);
      list[low] = list[high] ?? outside(list, high);
      list[high] = item;
    }
  }
}

/** By seconds, then number. By insertion: work is noted as it starts, so that little has to move. */
function sortNearlySorted(list: Int32Array, seconds: Float64Array): void {
  for (let end = 1; end < list.length; end++) {
    const item = list[end] ?? outside(list, end);
    const own = seconds[item] ?? outside(seconds, item);
    let index = end;
    for (; index > 0; index--) {
      const other = list[index - 1] ?? outside(list, index - 1);
      const before = (seconds[other] ?? outside(seconds, other)) - own;
      if (before < 0 || (before === 0 && other < item)) break;
      list[index] = other;
    }
    list[index] = item;
  }
}
