/** Half floats by the definition. */
import { expect, test } from 'vitest';
import { halfValue } from '../../swarm/wire.ts';
import { halfBits } from './half.ts';

test('every half is the half of its own value', () => {
  const wrong = Array.from({ length: 0x10000 }, (_, bits) => bits).filter(
    (bits) => !Number.isNaN(halfValue(bits)) && halfBits(halfValue(bits)) !== bits,
  );
  expect(wrong).toEqual([]);
});

test.each([
  [1, 0x3c00],
  [-2.5, 0xc100],
  [1 + 2 ** -11, 0x3c00],
  [1 + 3 * 2 ** -11, 0x3c02],
  [2 - 2 ** -12, 0x4000],
  [65_519, 0x7bff],
  [1e9, 0x7bff],
  [-1e9, 0xfbff],
  [2 ** -24, 1],
  [2 ** -25, 0],
  [3 * 2 ** -25, 2],
  [Number.POSITIVE_INFINITY, 0x7c00],
  [Number.NEGATIVE_INFINITY, 0xfc00],
  [Number.NaN, 0x7e00],
])('%d is the half %d: ties to even, finite values saturate', (value, bits) => {
  expect(halfBits(value)).toBe(bits);
});
