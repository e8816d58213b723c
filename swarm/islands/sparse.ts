/**
 * What an island tells the others of a run of its left-over (SparseLoCo, arXiv 2508.15706): its largest elements, each as
 * a place, a sign and one of two magnitudes. Rules IS in SPEC.md.
 *
 * The least magnitude that is sent is found with a heap of `top` of them, so a run is read twice and never sorted.
 */

import { totalOf } from '../base.ts';
import type { Islands } from '../run/runFile.ts';

export type SparseExchange = Exclude<Islands['exchange'], 'f32'>;

export interface SparseRun {
  readonly low: number;
  readonly high: number;
  /** By ascending place: four times the place in the run, plus 2 where the magnitude is `high`, plus 1 where it is negative. */
  readonly entries: Uint32Array;
}

export const IS_HIGH = 2;
const IS_NEGATIVE = 1;
const MAGNITUDE = 0x7fffffff;

/** How many elements of a run so long are sent at most. */
export const entriesOf = ({ top }: SparseExchange, length: number): number => Math.min(top, length);

export function sparsify(run: Float32Array, exchange: SparseExchange): SparseRun {
  // Bits of magnitudes order as their values do, so they are compared as integers, which are never "not a number".
  const bits = new Int32Array(run.buffer, run.byteOffset, run.length);
  const places = largest(bits, entriesOf(exchange, run.length));
  const sum = totalOf(places, (place) => Math.abs(run[place] ?? 0));
  let most = 0;
  for (const place of places) most = Math.max(most, Math.abs(run[place] ?? 0));
  // A mean of very many could round to more than all of them.
  const mean = Math.min(sum / places.length, most);
  let [highSum, highs] = [0, 0];
  let [lowSum, lows] = [0, 0];
  const entries = places.map((place) => {
    const value = run[place] ?? 0;
    const magnitude = Math.abs(value);
    const isHigh = magnitude >= mean;
    if (isHigh) [highSum, highs] = [highSum + magnitude, highs + 1];
    else [lowSum, lows] = [lowSum + magnitude, lows + 1];
    return 4 * place + (isHigh ? IS_HIGH : 0) + (value < 0 ? IS_NEGATIVE : 0);
  });
  if (highs === 0) return { low: 0, high: 0, entries };
  const high = Math.fround(highSum / highs);
  return { low: lows === 0 ? high : Math.fround(lowSum / lows), high, entries };
}

export const placeOf = (entry: number): number => entry >>> 2;

export function sentValue({ low, high }: SparseRun, entry: number): number {
  const magnitude = (entry & IS_HIGH) === 0 ? low : high;
  return (entry & IS_NEGATIVE) === 0 ? magnitude : -magnitude;
}

/** Places of the `count` largest magnitudes that are not 0, ascending; of equal ones the lower places. */
function largest(bits: Int32Array, count: number): Uint32Array {
  const [least, above] = thresholdOf(bits, count);
  const places = new Uint32Array(count);
  let equal = least === 0 ? 0 : count - above;
  let found = 0;
  for (let place = 0; place < bits.length; place++) {
    const magnitude = (bits[place] ?? 0) & MAGNITUDE;
    if (magnitude > least || (magnitude === least && equal-- > 0)) places[found++] = place;
  }
  return places.subarray(0, found);
}

/** The `count`-th largest magnitude (0 where fewer are not 0), and how many are larger. */
function thresholdOf(bits: Int32Array, count: number): readonly [number, number] {
  const heap = new Int32Array(count);
  for (let place = 0; place < bits.length; place++) {
    const magnitude = (bits[place] ?? 0) & MAGNITUDE;
    if (magnitude > (heap[0] ?? MAGNITUDE)) replaceLeast(heap, magnitude);
  }
  const least = heap[0] ?? 0;
  return [least, totalOf(heap, (magnitude) => (magnitude > least ? 1 : 0))];
}

/** In a heap whose first element is the least one. */
function replaceLeast(heap: Int32Array, value: number): void {
  let at = 0;
  for (;;) {
    const left = 2 * at + 1;
    if (left >= heap.length) break;
    const right = left + 1;
    const child = right < heap.length && (heap[right] ?? 0) < (heap[left] ?? 0) ? right : left;
    const least = heap[child] ?? 0;
    if (least >= value) break;
    heap[at] = least;
    at = child;
  }
  heap[at] = value;
}
