/** What packing and unpacking leave of a tensor: the references, for f16 beside int8. */

import { expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { packedBytes } from '../../swarm/wire.ts';
import { caseArrays } from '../kernel/verify.ts';
import { packF16 } from './packF16.ts';
import { packInt8, packInt8Feedback } from './packInt8.ts';
import { unpackF16 } from './unpackF16.ts';
import { unpackInt8 } from './unpackInt8.ts';

test('[WI3] f16: eleven bits of every element are left', () => {
  const dims = { n: 259, gain: 2 ** 12 };
  const { x, packed } = caseArrays(packF16, dims);
  x.fill(1, 100, 120); // away from what does not survive
  packF16.cpu({ x, packed }, dims);
  const y = new Float32Array(dims.n);
  unpackF16.cpu({ packed, x: y }, { n: dims.n, gain: 2 ** -12 });
  for (let i = 0; i < dims.n; i++)
    expect(Math.abs(at(y, i) - at(x, i))).toBeLessThanOrEqual(Math.abs(at(x, i)) * 2 ** -11);
});

test('[WI4] int8: every element within half a step of its block, a step being at most 1/112 of its largest', () => {
  const dims = { n: 1000 };
  const { x, packed } = caseArrays(packInt8, dims);
  packInt8.cpu({ x, packed }, dims);
  expect(packed.byteLength).toBe(packedBytes('int8', dims.n));
  const y = new Float32Array(dims.n);
  unpackInt8.cpu({ packed, x: y }, dims);
  for (let block = 0; block < dims.n; block += 64) {
    const largest = Math.max(...Array.from(x.subarray(block, block + 64), Math.abs));
    for (let i = block; i < Math.min(block + 64, dims.n); i++)
      expect(Math.abs(at(y, i) - at(x, i))).toBeLessThanOrEqual((0.5001 * largest) / 112);
  }
});

test('[WI5] int8 with feedback: what many packings send adds up to what they were given, but for the last step', () => {
  const dims = { n: 130 };
  const { x, packed, residual } = caseArrays(packInt8Feedback, dims);
  residual.fill(0);
  const sent = new Float64Array(dims.n);
  const y = new Float32Array(dims.n);
  const times = 50;
  for (let k = 0; k < times; k++) {
    packInt8Feedback.cpu({ x, packed, residual }, dims);
    unpackInt8.cpu({ packed, x: y }, dims);
    y.forEach((value, i) => {
      sent[i] = (sent[i] ?? 0) + value;
    });
  }
  for (let i = 0; i < dims.n; i++) {
    expect(Math.abs((sent[i] ?? 0) - times * at(x, i) + at(residual, i))).toBeLessThan(1e-4);
    expect(Math.abs(at(residual, i))).toBeLessThan(0.03);
  }
});

test.each([Number.NaN, Number.POSITIVE_INFINITY])('[WI6] %d is not lost on the wire', (broken) => {
  const x = new Float32Array(70).fill(0.5);
  x[3] = broken;
  const y = new Float32Array(70);
  const packed = new Uint32Array(packedBytes('int8', 70) / 4);
  packInt8.cpu({ x, packed }, { n: 70 });
  unpackInt8.cpu({ packed, x: y }, { n: 70 });
  expect(y[3]).toBeNaN();
  expect(y[69]).toBeCloseTo(0.5, 2);
  const halves = new Uint32Array(35);
  packF16.cpu({ x, packed: halves }, { n: 70, gain: 1 });
  unpackF16.cpu({ packed: halves, x: y }, { n: 70, gain: 1 });
  expect(y[3]).toBe(broken);
});
