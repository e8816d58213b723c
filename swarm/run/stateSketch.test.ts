import { describe, expect, it } from 'vitest';
import { seededRandom } from '../base.ts';
import { isNear, placeOf, Sketching, signOf, sketchOf } from './stateSketch.ts';

const ELEMENTS = 6_000;
const FIRST = 7;
const normal = (seed: number, size = 3 * ELEMENTS): Float32Array<ArrayBuffer> => {
  const random = seededRandom(seed);
  return Float32Array.from(
    { length: size },
    () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(6.283185307 * random()),
  );
};
const sum = (signs: readonly number[]): number => signs.reduce((total, sign) => total + sign, 0);

describe('the sums of a state', () => {
  it('[RE83] have the signs that the seed says, the same everywhere', () => {
    // By 32-bit arithmetic written out with whole numbers of any size.
    const M = 1n << 32n;
    const byHand = (seed: bigint, element: bigint): number => {
      let hash = (element * 0x9e3779b1n + seed) % M;
      hash = ((hash ^ (hash >> 16n)) * 0x85ebca6bn) % M;
      hash = ((hash ^ (hash >> 13n)) * 0xc2b2ae35n) % M;
      return Number((hash ^ (hash >> 16n)) & 31n);
    };
    for (const seed of [0, 1, 0x7fff_ffff, 0xffff_ffff])
      for (const element of [0, 1, 2, 999_999, 0xffff_fffe])
        expect(placeOf(seed, element), `${seed} ${element}`).toBe(byHand(BigInt(seed), BigInt(element)));
  });

  it('[RE83] are 16 sums of all elements, each once, whose signs have nothing to do with each other', () => {
    const state = normal(1);
    const { sums, squares } = sketchOf(5, FIRST, state, 3);
    for (const kind of [0, 1, 2]) {
      const part = [...state.subarray(kind * ELEMENTS, (kind + 1) * ELEMENTS)];
      for (const k of [0, 1, 6, 15]) {
        const plain = part.reduce((total, value, i) => total + signOf(placeOf(5, FIRST + i), k) * value, 0);
        expect(Math.abs((sums[kind]?.[k] ?? 0) - plain)).toBeLessThan(1e-9);
      }
      expect(Math.abs((squares[kind] ?? 0) - part.reduce((total, value) => total + value * value, 0))).toBeLessThan(
        1e-6,
      );
    }
    const signs = Array.from({ length: 16 }, (_, k) =>
      Array.from({ length: ELEMENTS }, (_, i) => signOf(placeOf(5, i), k)),
    );
    for (const [k, one] of signs.entries())
      for (const other of signs.slice(0, k))
        expect(Math.abs(sum(one.map((sign, i) => sign * (other[i] ?? 0))))).toBeLessThan(6 * Math.sqrt(ELEMENTS));
  });

  it('[RE83] are the same of a shard that comes in pieces, whatever their size', () => {
    const state = normal(4);
    for (const most of [1, 1_001, ELEMENTS, 3 * ELEMENTS]) {
      const sketching = new Sketching(5, 3);
      expect(sum([...sketching.addAll(FIRST, state, most)])).toBe(state.length);
      expect(sketching.result().sums).toEqual(sketchOf(5, FIRST, state, 3).sums);
    }
  });

  it('[RE83] of one number are that number, with a sign', () => {
    const state = new Float32Array(3);
    state.set([2.5], 1);
    const { sums, squares } = sketchOf(9, 4, state, 3);
    expect(sums[1]?.every((one) => Math.abs(one) === 2.5)).toBe(true);
    expect([sums[0], sums[2]].flat().every((one) => one === 0)).toBe(true);
    expect(squares).toEqual([0, 6.25, 0]);
  });
});

describe('two states', () => {
  /** Of one kind, by so much of its norm, in a direction of chance. */
  function moved(state: Float32Array, kind: number, relative: number, seed: number): Float32Array {
    const way = normal(seed, ELEMENTS);
    const part = state.subarray(kind * ELEMENTS, (kind + 1) * ELEMENTS);
    const norm = (values: Float32Array) => Math.sqrt(values.reduce((total, value) => total + value * value, 0));
    const scale = (relative * norm(part)) / norm(way);
    return state.map((value, i) => value + (Math.floor(i / ELEMENTS) === kind ? scale * (way[i % ELEMENTS] ?? 0) : 0));
  }

  it.each([0, 1, 2])('[RE83] a ten-millionth apart are near, a ten-thousandth apart are not: kind %s', (kind) => {
    for (let seed = 1; seed <= 8; seed++) {
      // The kinds are of quite different sizes.
      const state = normal(seed).map((value, i) => value * (i < ELEMENTS ? 1 : 1e-5));
      const primary = sketchOf(seed, FIRST, state, 3);
      const near = (relative: number) =>
        isNear(primary, sketchOf(seed, FIRST, moved(state, kind, relative, 100 + seed), 3));
      expect([near(0), near(1e-7), near(1e-4), near(1e-2)], `seed ${seed}`).toEqual([true, true, false, false]);
    }
  });

  it('[RE83] that differ in a hundredth of one element in six thousand are not near', () => {
    const state = normal(3).fill(1);
    const other = state.slice();
    other[ELEMENTS + 77] = 1.01;
    expect(isNear(sketchOf(2, FIRST, state, 3), sketchOf(2, FIRST, other, 3))).toBe(false);
  });
});
