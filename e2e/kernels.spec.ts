/** Every kernel in the browser that donors use, beside its CPU reference. */
import { expect, test } from 'vitest';
import { type Json, shoal } from './product.ts';

test('bench kernels: every kernel is right in headless Chromium', async () => {
  const { code, stdout, stderr } = await shoal('bench', 'kernels', '--json');
  expect(code, stderr).toBe(0);
  const { kernels } = JSON.parse(stdout) as { kernels: Json[] };
  expect(kernels.length).toBeGreaterThan(10);
  expect(kernels.filter(({ right }) => right !== true)).toEqual([]);
});
