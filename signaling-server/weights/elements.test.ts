import { getFloat16 } from '@petamoriken/float16';
import { expect, test } from 'vitest';
import { elementsOf, firstNonFinite } from './elements.ts';

test('[FI3] every half is the number that it stands for', () => {
  const bits = Uint16Array.from({ length: 65_536 }, (_, value) => value);
  const view = new DataView(bits.buffer);
  const values = elementsOf('F16', new Uint8Array(bits.buffer));
  expect(values.findIndex((value, i) => !Object.is(value, getFloat16(view, 2 * i, true)))).toBe(-1);
  expect([0x3c00, 0xc100, 0x0001, 0x7c00].map((half) => values[half])).toEqual([1, -2.5, 2 ** -24, Infinity]);
});

test('[FI3] bfloat16 and float32 as they are', () => {
  expect([...elementsOf('BF16', Uint8Array.of(0x80, 0x3f, 0x20, 0xc0))]).toEqual([1, -2.5]);
  expect([...elementsOf('F32', new Uint8Array(Float32Array.of(1, -2.5).buffer))]).toEqual([1, -2.5]);
});

test('what is no number is found', () => {
  expect(firstNonFinite(Float32Array.of(1, -3e38))).toBe(-1);
  expect([NaN, Infinity, -Infinity].map((value) => firstNonFinite(Float32Array.of(1, value, value)))).toEqual([
    1, 1, 1,
  ]);
});
