/** Which form of a kernel a device runs. */
import { expect, test } from 'vitest';
import { matmul, ofHalves } from './family/matmul.ts';
import type { MatrixUnit } from './family/matrixUnit.ts';
import { forDevice } from './forDevice.ts';
import { inHalves } from './kernel/inHalves.ts';
import { textKey, textOf } from './kernel/text.ts';
import { kernels } from './kernels.ts';
import { sumSquares } from './update/sumSquares.ts';

const product = matmul({ layout: 'NN', epilogue: { bias: true } });
const dims = { M: 37, N: 132, K: 200 };
const halves: MatrixUnit = { component: 'f16', m: 16, n: 16, k: 16, lanes: 32 };
const GPU = { family: 'gpu', inBoxes: false } as const;
const floats: MatrixUnit = { component: 'f32', m: 8, n: 8, k: 8, lanes: 32 };

test('a unit multiplies what the run computes with, or is left alone', () => {
  expect(forDevice({ units: [] }, 'f32', product)).toBe(product);
  expect(forDevice({ units: [halves] }, 'f32', product)).toBe(product);
  expect(forDevice({ units: [floats] }, 'f16', product)).toBe(inHalves(ofHalves(product)));
  expect(textOf(forDevice({ units: [floats, halves] }, 'f32', product), dims, GPU)).toContain('right<f32, 8, 8>');
  const code = textOf(forDevice({ units: [floats, halves] }, 'f16', product), dims, GPU);
  expect(code).toContain('right<f16, 16, 16>');
  expect(code).toContain('b: array<vec4h>');
});

test('[MP10] halves are multiplied as halves, eight at a time, but for weight gradients and sums over a vocabulary', () => {
  const code = (layout: 'NN' | 'NT' | 'TN', K: number, slices?: true): string =>
    textOf(forDevice({ units: [] }, 'f16', matmul({ layout, ...(slices && { slices }) })), { ...dims, K, S: 128 }, GPU);
  for (const layout of ['NN', 'NT'] as const) {
    expect(code(layout, 200)).toContain('aStrip: array<vec4h');
    // 16 steps in a stretch: the sums get their halves twice.
    expect(code(layout, 200).match(/s0_0 \+= vec4f\(h0_0\)/g)).toHaveLength(2);
    expect(code(layout, 50_257)).toContain('aStrip: array<vec4f');
  }
  expect(code('TN', 200)).toContain('aStrip: array<vec4f');
  expect(code('NN', 200, true)).toContain('aStrip: array<vec4f');
  expect(textOf(forDevice({ units: [] }, 'f32', matmul({ layout: 'NN' })), dims, GPU)).not.toContain('vec4h');
});

test('it is nothing to kernels that are no products, nor to software adapters', () => {
  expect(forDevice({ units: [floats] }, 'f32', sumSquares)).toBe(sumSquares);
  const software = { family: 'software', inBoxes: false } as const;
  expect(textOf(forDevice({ units: [floats] }, 'f32', product), dims, software)).toBe(textOf(product, dims, software));
});

test('its text has a key of its own for every unit, and the rows of a micro-batch are not in it', () => {
  const key = (unit: MatrixUnit, M = 37): string =>
    textKey(forDevice({ units: [unit] }, unit.component, product), { ...dims, M }, GPU);
  const keys = [floats, halves, { ...halves, n: 8 }, { ...halves, lanes: 64 }].map((unit) => key(unit));
  expect(new Set([...keys, textKey(product, dims, GPU)]).size).toBe(5);
  expect(key(halves, 38)).toBe(key(halves));
});

test('[KE50] a CPU that runs the kernels for GPUs has no text with workgroup memory, a barrier or subgroups', () => {
  for (const kernel of kernels) {
    for (const compute of ['f32', 'f16'] as const) {
      const own = forDevice({ units: [], gpuClass: 'cpu' }, compute, kernel);
      expect(forDevice({ units: [], gpuClass: 'cpu' }, compute, kernel)).toBe(own);
      for (const dims of kernel.cases)
        expect(textOf(own, dims, GPU), own.name).not.toMatch(/var<workgroup>|Barrier\(|subgroup|quadSwap/);
    }
  }
});
