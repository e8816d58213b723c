/** What four bits leave of a tensor: the references. */
import { expect, test } from 'vitest';
import { at, normal, seededRandom } from '../../swarm/base.ts';
import { packedBytes, rotateInt4 } from '../../swarm/wire.ts';
import { int4Key, packInt4, packInt4Drawn } from './packInt4.ts';
import { unpackInt4 } from './unpackInt4.ts';

const GAIN = 2 ** 8;

function carried(x: Float32Array, key?: number): Float32Array {
  const n = x.length;
  const packed = new Uint32Array(packedBytes('int4', n) / 4);
  if (key === undefined) packInt4.cpu({ x, packed }, { n, gain: GAIN });
  else packInt4Drawn.cpu({ x, packed, key: Uint32Array.of(key) }, { n, gain: GAIN });
  const y = new Float32Array(n);
  unpackInt4.cpu({ packed, x: y }, { n, gain: 1 / GAIN });
  return y;
}

const normals = (count: number, seed: number): Float32Array => {
  const random = seededRandom(seed);
  return Float32Array.from({ length: count }, () => normal(random));
};
const tileOf = (x: Float32Array, tile: number): number[] => Array.from(x.subarray(32 * tile, 32 * tile + 32));
const squares = (values: readonly number[]): number => values.reduce((sum, value) => sum + value * value, 0);

test('[WI13] 160 elements take 26 words', () => {
  expect(packedBytes('int4', 160)).toBe(4 * 26);
  expect(packedBytes('int4', 160_000) / (4 * 160_000)).toBeLessThan(0.17);
});

test('[WI13] a tile without an outlier: every element within half of the 15 steps from its least to its greatest', () => {
  // Magnitudes from 1 to 2: the largest is never twice the second.
  const x = normals(1000, 1).map((value) => Math.sign(value) * (1 + (Math.abs(value) % 1)));
  const y = carried(x);
  for (let i = 0; i < x.length; i++) {
    const tile = tileOf(x, Math.floor(i / 32));
    // What lies beyond the end of the tensor counts as zero; the ends are halves, good to 2^-11.
    const step = (Math.max(...tile, 0) - Math.min(...tile, 0)) / 15;
    expect(Math.abs(at(y, i) - at(x, i))).toBeLessThanOrEqual(step / 2 + 2 ** -9);
  }
});

test('[WI13] the rotation is the Hadamard matrix by √32, and its own inverse', () => {
  const values = Array.from(normals(32, 2));
  const rotated = [...values];
  rotateInt4(rotated);
  const parity = (bits: number): number => [0, 1, 2, 3, 4].reduce((sum, bit) => sum ^ ((bits >> bit) & 1), 0);
  for (let i = 0; i < 32; i++) {
    const expected = values.reduce((sum, value, j) => sum + (parity(i & j) ? -value : value), 0) / Math.sqrt(32);
    expect(at(rotated, i)).toBeCloseTo(expected, 5);
  }
  rotateInt4(rotated);
  for (const [i, value] of values.entries()) expect(at(rotated, i)).toBeCloseTo(value, 5);
});

test('[WI13] an outlier wherever it stands costs its tile little: less than a tenth of what plain levels would', () => {
  for (let place = 0; place < 32; place += 5) {
    const x = normals(32, 3 + place);
    x[place] = -100;
    const error = squares(tileOf(carried(x), 0).map((value, i) => value - at(x, i)));
    const step = (Math.max(...x) + 100) / 15;
    const plain = squares(tileOf(x, 0).map((value) => value + 100 - step * Math.round((value + 100) / step)));
    expect(error).toBeLessThan(plain / 10);
  }
});

test('[WI14] gradients are drawn: right on average, the same for the same step, micro-batch and place', () => {
  const x = normals(320, 4);
  const sum = new Float64Array(320);
  const times = 2000;
  for (let step = 0; step < times; step++)
    carried(x, int4Key(step, step % 3)).forEach((value, i) => {
      sum[i] = at(sum, i) + value;
    });
  for (let i = 0; i < 320; i++) {
    // A draw lies within a step of what is drawn, so the mean of 2,000 within 5 deviations of it is 5·step/√(4·2000).
    const tile = tileOf(x, Math.floor(i / 32));
    const step = (Math.max(...tile) - Math.min(...tile)) / 15;
    expect(Math.abs(at(sum, i) / times - at(x, i))).toBeLessThan(0.056 * step + 2 ** -10);
  }
  expect(carried(x, int4Key(7, 1))).toEqual(carried(x, int4Key(7, 1)));
  expect(carried(x, int4Key(7, 1))).not.toEqual(carried(x, int4Key(7, 2)));
  expect(carried(x, int4Key(7, 1))).not.toEqual(carried(x, int4Key(8, 1)));
});

test.each([Number.NaN, Number.POSITIVE_INFINITY, -3e38])(
  '[WI6] %d is not lost on the wire, nor are its neighbours',
  (broken) => {
    const x = new Float32Array(70).fill(0.5);
    x[33] = broken;
    const y = carried(x);
    expect(y[33]).toBeNaN();
    expect(y[63]).toBeNaN();
    expect(y[31]).toBeCloseTo(0.5, 2);
    expect(y[69]).toBeCloseTo(0.5, 2);
  },
);
