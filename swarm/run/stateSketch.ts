/**
 * Sixteen sums over a state, each element with a sign of its own in each sum: what two who updated the same state on
 * adapters of different classes compare it by. Where two states differ by d, each sum differs by a sum of d's elements
 * with random signs, which is about |d|: so no state whose d is a tenth of the tolerance is blamed, and of one whose d is
 * ten times the tolerance some sum tells. The signs follow from a seed that who compares chose, and told nobody before.
 *
 * An element adds itself to one of 16 buckets, with a sign. Row k of Walsh's matrix of 16 adds the buckets to sum k, so that
 * each sum has every element once, at the cost of one addition an element. Rules RE in SPEC.md.
 */
import { at } from '../base.ts';

export const SKETCH_SUMS = 16;
/** Of the norm. Two adapters round an update otherwise in the last bit of a float, about 1e-7 of it. */
const TOLERANCE = 1e-5;

/** Of a shard's values, first moments and second moments, or whatever kinds the run has. */
interface StateSketch {
  readonly sums: readonly (readonly number[])[];
  /** Of squares. */
  readonly squares: readonly number[];
}

/** In 0…31: the bucket, and from 16 on the sign is negative. The same everywhere: 32-bit integers alone. */
export function placeOf(seed: number, element: number): number {
  let hash = (Math.imul(element, 0x9e37_79b1) + seed) | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2_ae35);
  return (hash ^ (hash >>> 16)) & (2 * SKETCH_SUMS - 1);
}

/** One element's sign in one sum. */
export const signOf = (place: number, sum: number): 1 | -1 => {
  let bits = (place & sum) | (place & SKETCH_SUMS);
  let sign: 1 | -1 = 1;
  for (; bits > 0; bits &= bits - 1) sign = sign === 1 ? -1 : 1;
  return sign;
};

/** Of a shard that comes in pieces, or whole. */
export class Sketching {
  readonly #seed: number;
  readonly #buckets: readonly Float64Array[];
  readonly #squares: Float64Array;

  constructor(seed: number, kinds: number) {
    this.#seed = seed;
    this.#buckets = Array.from({ length: kinds }, () => new Float64Array(2 * SKETCH_SUMS));
    this.#squares = new Float64Array(kinds);
  }

  /** These values of one kind, `first` the first one's place in the block. */
  add(kind: number, first: number, values: Float32Array): void {
    const buckets = at(this.#buckets, kind);
    let squares = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      const place = placeOf(this.#seed, first + i);
      buckets[place] = (buckets[place] as number) + value;
      squares += value * value;
    }
    this.#squares[kind] = (this.#squares[kind] ?? 0) + squares;
  }

  /** The whole of a shard, one kind after the other: at most so many elements between two yields, which say how many. */
  *addAll(first: number, state: Float32Array, most: number): Generator<number> {
    const elements = state.length / this.#buckets.length;
    for (let kind = 0; kind < this.#buckets.length; kind++)
      for (let from = 0; from < elements; from += most) {
        const end = Math.min(from + most, elements);
        this.add(kind, first + from, state.subarray(kind * elements + from, kind * elements + end));
        yield end - from;
      }
  }

  result(): StateSketch {
    const sums = this.#buckets.map((buckets) =>
      Array.from({ length: SKETCH_SUMS }, (_, sum) =>
        buckets.reduce((total, value, place) => total + signOf(place, sum) * value, 0),
      ),
    );
    return { sums, squares: [...this.#squares] };
  }
}

/** Of the whole of a shard, as `readState` has it. */
export function sketchOf(seed: number, first: number, state: Float32Array, kinds: number): StateSketch {
  const sketching = new Sketching(seed, kinds);
  const all = sketching.addAll(first, state, state.length);
  while (!all.next().done);
  return sketching.result();
}

/** Whether the copy is what adapters of different classes make of the same state. */
export const isNear = (primary: StateSketch, copy: Pick<StateSketch, 'sums'>): boolean =>
  primary.sums.every((sums, kind) => {
    const norm = Math.sqrt(primary.squares[kind] ?? 0);
    return sums.every((sum, k) => Math.abs(sum - (copy.sums[kind]?.[k] ?? Number.NaN)) <= TOLERANCE * norm);
  });
