/**
 * Every kernel of the table, in both adapter families, against its CPU reference on a software adapter (Dawn for Node).
 * Neither family's variants of these kernels use subgroups, so any adapter runs both.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { type DawnDevice, dawnDevice } from './dawn.ts';
import type { AdapterFamily } from './kernel.ts';
import { kernels } from './kernels.ts';
import { PipelineCache } from './launch.ts';
import { compareKernel } from './verify.ts';

// The matrix product has tests of its own, for every layout and epilogue: matmul.gpu.test.ts.
const others = kernels.filter(({ name }) => !name.startsWith('matmul'));

const found = await dawnDevice();
const skipped = found.ok ? '' : ` (skipped: ${found.reason})`;

describe.skipIf(!found.ok)(`kernels against their CPU references${skipped}`, () => {
  let dawn: DawnDevice;
  let pipelines: PipelineCache;
  beforeAll(() => {
    if (!found.ok) return;
    dawn = found.value;
    pipelines = new PipelineCache(dawn.device);
  });

  const families: readonly AdapterFamily[] = ['software', 'gpu'];
  const table = families.flatMap((family) =>
    others.flatMap((kernel) =>
      kernel.cases.map((dims) => ({
        family,
        kernel,
        dims,
        title: `${kernel.name} ${family} ${JSON.stringify(dims).replaceAll('"', '')}`,
      })),
    ),
  );
  test.each(table)('$title', async ({ family, kernel, dims }) => {
    const comparison = await compareKernel(dawn.device, family, kernel, dims, { pipelines });
    expect(comparison.excess, comparison.where).toBeLessThanOrEqual(0);
  });
});
