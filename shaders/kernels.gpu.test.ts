/**
 * Every kernel of the table, in both adapter families, against its CPU reference on a software adapter (Dawn for Node).
 * `gpu` variants use no subgroups, so SwiftShader runs them too: slowly, but with the same arithmetic.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { type DawnDevice, dawnDevice } from './dawn.ts';
import type { AdapterFamily } from './kernel.ts';
import { kernels } from './kernels.ts';
import { PipelineCache } from './launch.ts';
import { compareKernel } from './verify.ts';

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
    kernels.flatMap((kernel) =>
      kernel.cases.map((dims) => ({
        family,
        kernel,
        dims,
        title: `${kernel.name} ${family} ${JSON.stringify(dims).replaceAll('"', '')}`,
      })),
    ),
  );
  test.each(table)('$title', async ({ family, kernel, dims, title }) => {
    const variant = kernel.variant(family, dims);
    if (variant.subgroups && !dawn.device.features.has('subgroups')) return;
    const comparison = await compareKernel(dawn.device, family, kernel, dims, { pipelines });
    if (process.env.SHOAL_SHOW_ERRORS) console.log(title, comparison.error.toExponential(1), comparison.where);
    expect(comparison.excess, comparison.where).toBeLessThanOrEqual(0);
  });
});
