import { expect, test } from 'vitest';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import { benchCases } from './kernels.ts';

test('kernels that only one family has are shown where the adapter is of it, and there alone', () => {
  const slicedOf = (family: AdapterFamily) =>
    benchCases(family).flatMap(([kernel, dims]) => {
      expect(() => kernel.source(family, dims).body()).not.toThrow();
      return kernel.name.endsWith('.slices') ? [kernel.name] : [];
    });
  expect(slicedOf('gpu')).toEqual(['matmul.TN.slices', 'matmul.TN.biasGradient.slices']);
  expect(slicedOf('software')).toEqual([]);
});
