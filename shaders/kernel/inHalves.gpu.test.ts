/** Every kernel over halves against its CPU reference, on an adapter that has shader-f16 (llvmpipe, or a GPU). */
import { beforeAll, describe, expect, test } from 'vitest';
import { embedForward } from '../embedding/embedForward.ts';
import { matmul } from '../family/matmul.ts';
import { GPU_TILES } from '../family/tiles.ts';
import { forDevice } from '../forDevice.ts';
import { kernels } from '../kernels.ts';
import { type DawnDevice, dawnDevice } from '../testing/dawn.ts';
import { inHalves } from './inHalves.ts';
import { PipelineCache } from './launch.ts';
import { caseArrays, caseTable, compareKernel, runKernel } from './verify.ts';

const found = await dawnDevice('halves');
const hasHalves = found.ok && found.value.device.features.has('shader-f16');
const skipped = hasHalves
  ? ''
  : ` (skipped: ${found.ok ? `${found.value.description} has no shader-f16` : found.reason})`;

describe.skipIf(!hasHalves)(`kernels over halves${skipped}`, () => {
  let dawn: DawnDevice;
  let pipelines: PipelineCache;
  beforeAll(() => {
    if (!found.ok) return;
    dawn = found.value;
    pipelines = new PipelineCache(dawn.device);
  });

  // A CPU compiles each of them for a second and more: at every change size 1 and one that no tile divides.
  const most = process.env.SHOAL_LONG === '1' ? undefined : 2;
  const table = (['usual', 'cpu'] as const).flatMap((gpuClass) => {
    const changed = kernels
      .map((kernel) => forDevice({ units: [], gpuClass }, 'f16', kernel))
      .filter((kernel) => kernel.tensors.some(({ type }) => type === 'f16'))
      .map((kernel) => ({ ...kernel, cases: kernel.cases.slice(0, most) }));
    return caseTable(changed).map((row) => ({ ...row, title: `${gpuClass} class: ${row.title}` }));
  });
  test.each(table)('$title', async ({ kernel, dims }) => {
    const comparison = await compareKernel(dawn.device, 'gpu', kernel, dims, { pipelines });
    expect(comparison.excess, comparison.where).toBeLessThanOrEqual(0);
  });

  const wide = GPU_TILES.wide.filter(({ ownRows, ownColumns }) => ownRows * ownColumns === 64);
  test.each(wide.flatMap((gpu) => gpu.layouts.map((layout) => ({ gpu, layout }))))(
    '$layout in tiles of $gpu.rows×$gpu.columns, $gpu.ownRows×$gpu.ownColumns each',
    async ({ layout, gpu }) => {
      const tried = { gpu: { ...gpu, depth: 12 } };
      const kernel = forDevice({ units: [] }, 'f16', matmul({ layout, tried }));
      const comparison = await compareKernel(dawn.device, 'gpu', kernel, { M: 37, N: 132, K: 42 }, { pipelines });
      expect(comparison.excess, comparison.where).toBeLessThanOrEqual(0);
    },
  );

  test('a sum past the largest half is stored as infinite, and is none before', async () => {
    const kernel = inHalves(embedForward);
    const dims = { N: 1, T: 1, C: 8, V: 1, F: 0, R: 1 };
    const arrays = caseArrays(kernel, dims);
    arrays.token_VC?.set([65_504, 65_504, -65_504, -65_504, 1, 2 ** -14, Number.POSITIVE_INFINITY, Number.NaN]);
    arrays.position_TC?.set([0, 32, -1, -65_504, 2 ** -11, 0, 0, 0]);
    const { x_NC } = await runKernel(dawn.device, 'gpu', kernel, dims, arrays, pipelines);
    const infinite = Number.POSITIVE_INFINITY;
    expect([...(x_NC ?? [])]).toEqual([65_504, infinite, -infinite, -infinite, 1, 2 ** -14, infinite, Number.NaN]);
  });
});
