/** Every text of every case is one that Tint takes, halves, boxes and immediates too: on Dawn's null adapter, which runs nothing. */
import { expect, test } from 'vitest';
import { matmul } from '../family/matmul.ts';
import { kernels } from '../kernels.ts';
import { nullDevice } from '../testing/dawn.ts';
import { inHalves } from './inHalves.ts';
import type { Kernel } from './kernel.ts';
import { PipelineCache } from './launch.ts';

const sliced = matmul({ layout: 'TN', epilogue: { biasGradient: true }, slices: true });
const forGpus = [...kernels, sliced].flatMap((kernel) => [kernel, inHalves(kernel)]);

test.each([
  { family: 'software', table: kernels, place: 'immediate' },
  { family: 'gpu', table: forGpus, place: 'immediate' },
  { family: 'gpu', table: forGpus, place: 'uniform' },
] as const)('$family: texts of $table.length kernels, dims: $place', async ({ family, table, place }) => {
  const device = await nullDevice(place);
  if (!device.ok) throw new Error(device.reason);
  const pipelines = new PipelineCache(device.value);
  const compile = (kernel: Kernel, inBoxes: boolean) =>
    Promise.all(kernel.cases.map((dims) => pipelines.get(kernel, dims, { family, inBoxes })));
  for (const kernel of table) for (const inBoxes of [false, true]) await compile(kernel, inBoxes);
  expect(pipelines.size).toBeGreaterThan(2 * table.length);
});
