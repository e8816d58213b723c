/** The figures of a GPU, on a software adapter: what is printed of a small model. */

import { expect, test } from 'vitest';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { totalOf } from '../../../swarm/base.ts';
import { benchGpu } from './gpuFigures.ts';
import { tuneProducts } from './tune.ts';

const found = await dawnDevice();
const skipped = found.ok ? '' : ` (skipped: ${found.reason})`;
const profile = { vendor: '', architecture: '', description: '', software: true, browser: 'dawn' };
const asked = { steps: 2, memoryBytes: 1e9, compute: 'f32' } as const;

test.skipIf(!found.ok)(`where a step's time goes, by kernel and shape: every launch once${skipped}`, async () => {
  if (!found.ok) return;
  const opened = { ...found.value, profile };
  const figures = await benchGpu(opened, ['xs'], { ...asked, endsAt: Infinity });
  if (!figures.ok) throw new Error(figures.reason);
  const [step] = figures.value.steps;
  const shapes = step?.shapes ?? [];
  expect(figures.value.leftOut).toEqual([]);
  expect(totalOf(shapes, ({ share }) => share)).toBeCloseTo(1, 9);
  // Beside the step's own launches each pass ends with one that counts it.
  const launches = totalOf(shapes, ({ calls }) => calls);
  expect(launches).toBeLessThanOrEqual(step?.dispatches ?? 0);
  expect(launches).toBeGreaterThan(0.8 * (step?.dispatches ?? 0));
  // Two layers of width 64: the product that makes queries, keys and values of 256 rows is one row of the table.
  const qkv = shapes.find(({ name, dims }) => name === 'matmul.NN.bias' && dims.N === 192);
  expect(qkv).toMatchObject({ calls: 2, dims: { M: 256, N: 192, K: 64 } });
  expect(qkv?.gflops).toBeCloseTo((2 * 2 * 256 * 192 * 64) / (qkv?.ms ?? 0) / 1e6, 6);
});

test.skipIf(!found.ok)(`what time ran out for is said, and nothing of it is begun${skipped}`, async () => {
  if (!found.ok) return;
  const opened = { ...found.value, profile };
  const figures = await benchGpu(opened, ['xs', 's'], { ...asked, endsAt: 0 });
  expect(figures).toMatchObject({ ok: true, value: { steps: [], leftOut: ['xs', 's'] } });
  const tuned = await tuneProducts(opened, ['xs'], 'f32', 0);
  expect(tuned).toMatchObject({ shapes: [], rows: [] });
  expect(tuned.leftOut).toBeGreaterThan(5);
});
