/** AdamW's reference against what can be worked out by hand, and the rounding that its scalars must survive. */
import { expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { type AdamwSettings, adamw, adamwScalars } from './adamw.ts';
import { type Decays, decayDims } from './updateRuns.ts';

const settings = { learningRate: 0.1, clipScale: 1, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0 };

const float64 = (...values: number[]) => Float64Array.from(values) as unknown as Float32Array;

function run(updates: readonly (Partial<AdamwSettings> & { readonly grad: number })[], start: number, decay: 0 | 1) {
  const decays: Decays = decay ? [[0, 1]] : [];
  const arrays = { values: float64(start), grads: float64(0), m: float64(0), v: float64(0), scalars: float64() };
  const path = updates.map(({ grad, ...changes }, index) => {
    arrays.grads[0] = grad;
    const scalars = adamwScalars({ ...settings, update: index + 1, ...changes });
    adamw.cpu(
      { ...arrays, scalars },
      { offset: 0, count: 1, gradientOffset: 0, momentOffset: 0, ...decayDims(decays) },
    );
    return arrays.values[0];
  });
  return { path, ...arrays };
}

test('the first update moves by the learning rate against the sign of the gradient, whatever its size', () => {
  for (const grad of [1e-3, 5, -700]) {
    expect(run([{ grad }], 2, 0).path[0]).toBeCloseTo(2 - 0.1 * Math.sign(grad), 5);
  }
});

test('a constant gradient moves by the learning rate at every update: the corrections undo the start at zero', () => {
  const { path } = run(
    Array.from({ length: 20 }, () => ({ grad: 0.3 })),
    0,
    0,
  );
  path.forEach((value, index) => {
    expect(value).toBeCloseTo(-0.1 * (index + 1), 5);
  });
});

test('two updates by hand: g = 1 then g = −1', () => {
  // m: 0.1, then 0.9·0.1 − 0.1 = −0.01; v: 0.05, then 0.95·0.05 + 0.05 = 0.0975; c₁ = 0.19, c₂ = 0.0975.
  const { path, m, v } = run([{ grad: 1 }, { grad: -1 }], 1, 0);
  expect(path[0]).toBeCloseTo(0.9, 6);
  expect(m[0]).toBeCloseTo(-0.01, 7);
  expect(v[0]).toBeCloseTo(0.0975, 7);
  expect(path[1]).toBeCloseTo(0.9 - (0.1 * (-0.01 / 0.19)) / 1, 6);
});

test('decay is decoupled: it shrinks the value by lr·weightDecay before the update, and only where asked', () => {
  const changes = { weightDecay: 0.5, grad: 0 };
  expect(run([changes, changes], 8, 1).path).toEqual([expect.closeTo(7.6, 5), expect.closeTo(7.22, 5)]);
  expect(run([changes], 8, 0).path).toEqual([8]);
});

test('clipping scales the gradient before the moments', () => {
  const { m, v } = run([{ grad: 4, clipScale: 0.25 }], 0, 0);
  expect(m[0]).toBeCloseTo(0.1, 7);
  expect(v[0]).toBeCloseTo(0.05, 7);
});

test('a beta near 1 does not lose digits to float32: v/c₂ of a constant gradient stays g²', () => {
  const scalars = adamwScalars({ ...settings, beta2: 0.999, update: 1 });
  const [beta2, correction2] = [at(scalars, 3), at(scalars, 6)];
  expect((1 - beta2) / correction2).toBeCloseTo(1, 7);
});

test('only the range is touched, and moments have an offset of their own', () => {
  const arrays = {
    values: float64(1, 1, 1, 1),
    grads: float64(1, 1, 1, 1),
    m: float64(0, 0, 0),
    v: float64(0, 0, 0),
    scalars: adamwScalars({ ...settings, update: 1 }),
  };
  adamw.cpu(arrays, { offset: 1, count: 2, gradientOffset: 1, momentOffset: 0, ...decayDims([]) });
  expect(Array.from(arrays.values, (value) => value === 1)).toEqual([true, false, false, true]);
  expect(Array.from(arrays.m, (value) => value === 0)).toEqual([false, false, true]);
});
