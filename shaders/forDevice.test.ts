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

test('what is loaded ahead of halves stays so until it is staged, and floats are multiplied', () => {
  const code = (compute: 'f32' | 'f16', layout: 'NN' | 'NT' | 'TN', N: number): string =>
    textOf(forDevice({ units: [] }, compute, matmul({ layout })), { ...dims, N }, GPU);
  for (const layout of ['NN', 'NT', 'TN'] as const) {
    const ahead = code('f16', layout, 132);
    expect(ahead).toContain('var b0_0 = vec4h();');
    expect(ahead).toMatch(/b0_0 = b\[/);
    expect(ahead).toMatch(/bStrip\[.*\] = vec4f\(/);
    expect(ahead).toContain('bStrip: array<vec4f');
    // From its text over floats it differs in nothing that multiplies.
    const sums = (text: string): string[] => text.match(/s\d_\d \+= .*/g) ?? [];
    expect(sums(ahead)).toEqual(sums(code('f32', layout, 132)));
    // Rows of B that are no whole quads are read one by one.
    if (layout !== 'NT') expect(code('f16', layout, 37)).toContain('vec4h(b[');
    expect(code('f32', layout, 132)).not.toContain('vec4h');
  }
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

test('a CPU that runs the kernels for GPUs has no text with workgroup memory, a barrier or subgroups', () => {
  for (const kernel of kernels) {
    for (const compute of ['f32', 'f16'] as const) {
      const own = forDevice({ units: [], gpuClass: 'cpu' }, compute, kernel);
      expect(forDevice({ units: [], gpuClass: 'cpu' }, compute, kernel)).toBe(own);
      for (const dims of kernel.cases)
        expect(textOf(own, dims, GPU), own.name).not.toMatch(/var<workgroup>|Barrier\(|subgroup|quadSwap/);
    }
  }
});
