/** Words every other file is written in: branded ids, invariants, ranges, numbers for people, and the one seeded random generator. Pure. */

declare const brand: unique symbol;
type Branded<T, Name extends string> = T & { readonly [brand]: Name };

/** A donor's tab, as the server names it for as long as its connection lives. */
export type PeerId = Branded<string, 'PeerId'>;
export const peerId = (text: string): PeerId => text as PeerId; // the one place that brands a peer

/** Throws when our own code broke a rule it promised to keep. Never for what a person or another program sent. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`invariant violated: ${message}`);
}

export function assertNever(value: never): never {
  throw new Error(`invariant violated: unexpected ${JSON.stringify(value)}`);
}

/**
 * The element at an index that lies within (negative ones do not count from the end). It reads arrays of every kind, so
 * V8 makes it some 5 ns an element.
 */
export function at<T>(values: ArrayLike<T>, index: number): T {
  const value = values[index];
  return value === undefined ? outside(values, index) : value;
}

/** The same of numbers in typed arrays, which V8 makes as fast as a bare read: for loops that run by the million. */
export const float = (values: Float64Array, index: number): number => values[index] ?? outside(values, index);
export const int = (values: Int32Array, index: number): number => values[index] ?? outside(values, index);

export function outside({ length }: ArrayLike<unknown>, index: number): never {
  throw new Error(`invariant violated: element ${index} of ${length}`);
}

/** The value of a key that the map holds. */
export function got<Key, Value>(values: ReadonlyMap<Key, Value>, key: Key): Value {
  const value = values.get(key);
  if (value === undefined) throw new Error(`invariant violated: nothing for ${String(key)} among ${values.size}`);
  return value;
}

/** A value, or the sentence that says why there is none. */
export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };
export const success = <T>(value: T): Result<T> => ({ ok: true, value });
export const refusal = (reason: string): { readonly ok: false; readonly reason: string } => ({ ok: false, reason });

type Given<T> = { [Field in keyof T]?: Exclude<T[Field], undefined> };

/** Only the fields that have a value: what was not said is no field. */
export const given = <T extends object>(fields: T): Given<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<T>;

/** A half-open range `[from, to)` of layers, samples or elements. */
export type Range = readonly [from: number, to: number];

/** How many layers, samples or elements are in a range. */
export const countIn = ([from, to]: Range): number => to - from;

/** Overlap of two ranges, or null where they share nothing. */
export function overlap(a: Range, b: Range): Range | null {
  const from = Math.max(a[0], b[0]);
  const to = Math.min(a[1], b[1]);
  return from < to ? [from, to] : null;
}

/** How many both of two ranges have. */
export const countInBoth = (a: Range, b: Range): number => countIn(overlap(a, b) ?? [0, 0]);

/** `count` ranges that cover `[0, total)` in order, as equal as can be; the first ones get what does not divide. */
export function evenRanges(total: number, count: number): Range[] {
  const small = Math.floor(total / count);
  const larger = total % count;
  return Array.from({ length: count }, (_, i) => {
    const from = i * small + Math.min(i, larger);
    return [from, from + small + (i < larger ? 1 : 0)] as const;
  });
}

/** What `of` makes of the numbers from 0 on, so many of them. */
export const arrayOf = <T>(count: number, of: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => of(index));

export const total = (values: Iterable<number>): number => totalOf(values, (value) => value);

/** Added up in their order. */
export function totalOf<T>(values: Iterable<T>, of: (value: T) => number): number {
  let sum = 0;
  for (const value of values) sum += of(value);
  return sum;
}

/** Adds to what a map has for a key: 0 where it has nothing. */
export const addToKey = <Key>(sums: Map<Key, number>, key: Key, amount: number): void => {
  sums.set(key, (sums.get(key) ?? 0) + amount);
};

/** Puts a value at the end of a key's list. */
export const pushToKey = <Key, Value>(lists: Map<Key, readonly Value[]>, key: Key, value: Value): void => {
  lists.set(key, [...(lists.get(key) ?? []), value]);
};

/** Of the values in ascending order the one at this share of the way from the first to the last, or the one before; null of none. */
export function nearestRank(values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))] ?? null;
}

/** The lower one of two in the middle; null of none. */
export const median = (values: readonly number[]): number | null => nearestRank(values, 0.5);

/** For a person: in so many digits, and no more than it has. */
export const rounded = (value: number, digits: number): string => String(Number(value.toPrecision(digits)));

/** What is waited before the next attempt: twice as long after each that was in vain, up to a limit. */
export const doubledMs = (firstMs: number, mostMs: number, doublings: number): number =>
  Math.min(mostMs, firstMs * 2 ** doublings);

/**
 * Uniform numbers in [0, 1), a pure function of the seed, a whole number of up to 53 bits (Mulberry32: 32 bits of state,
 * period 2^32). Seeds below 2^32 are the state itself; what a larger one has above is mixed into it.
 */
export type Random = () => number;
export function seededRandom(seed: number): Random {
  let state = (seed ^ Math.imul(Math.floor(seed / 2 ** 32), 0x9e3779b1)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A word in which every bit depends on each of `value`'s (PCG's output function; mixed.wgsl is its twin). */
export function mixed(value: number): number {
  const state = (Math.imul(value, 747_796_405) + 2_891_336_453) >>> 0;
  const word = Math.imul((state >>> ((state >>> 28) + 4)) ^ state, 277_803_737) >>> 0;
  return ((word >>> 22) ^ word) >>> 0;
}

/** A whole number in [0, limit). */
export const below = (random: Random, limit: number): number => Math.floor(random() * limit);

/** A standard normal variate (Box–Muller, the cosine branch). */
export function normal(random: Random): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  return radius * Math.cos(2 * Math.PI * random());
}
