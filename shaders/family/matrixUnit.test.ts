/** Which units an adapter's word makes. */
import { expect, test } from 'vitest';
import { MATRIX_FEATURE, matrixUnits } from './matrixUnit.ts';

const config = (componentType: string, resultComponentType: string, M: number, N: number, K: number) => ({
  componentType,
  resultComponentType,
  M,
  N,
  K,
});

const units = (subgroupMatrixConfigs: ReturnType<typeof config>[], subgroupMaxSize = 32, features = [MATRIX_FEATURE]) =>
  matrixUnits({ subgroupMaxSize, subgroupMatrixConfigs }, new Set(features));

test('the first that multiplies what the run computes with, and sums in f32', () => {
  const apple = [config('f32', 'f32', 8, 8, 8), config('f16', 'f16', 8, 8, 8), config('f16', 'f32', 8, 8, 8)];
  expect(units(apple)).toEqual([
    { component: 'f32', m: 8, n: 8, k: 8, lanes: 32 },
    { component: 'f16', m: 8, n: 8, k: 8, lanes: 32 },
  ]);
  const nvidia = [
    config('f16', 'f16', 16, 8, 8),
    config('i8', 'i32', 16, 16, 32),
    config('f16', 'f32', 16, 16, 16),
    config('f16', 'f32', 16, 8, 16),
  ];
  expect(units(nvidia)).toEqual([{ component: 'f16', m: 16, n: 16, k: 16, lanes: 32 }]);
});

test('none without the feature, on a software adapter, or where tiles or workgroups do not fit it', () => {
  const halves = config('f16', 'f32', 16, 16, 16);
  expect(units([halves], 64)).toHaveLength(1);
  expect(units([halves], 128)).toEqual([]);
  expect(units([halves], 32, [])).toEqual([]);
  expect(units([config('f16', 'f32', 32, 8, 16)])).toEqual([]);
  expect(matrixUnits({}, new Set([MATRIX_FEATURE]))).toEqual([]);
  const software = {
    isFallbackAdapter: true,
    subgroupMaxSize: 8,
    subgroupMatrixConfigs: [config('f16', 'f32', 8, 8, 8)],
  };
  expect(matrixUnits(software, new Set([MATRIX_FEATURE]))).toEqual([]);
});
