/** Launches in boxes on Dawn: the same bits as in one dispatch, and a grid that one dispatch may not have. */
import { beforeAll, describe, expect, test } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { kernels } from '../kernels.ts';
import { type DawnDevice, dawnDevice } from '../testing/dawn.ts';
import { type AdapterFamily, type Dims, kernel } from './kernel.ts';
import { PipelineCache } from './launch.ts';
import { readWrite, u32 } from './slots.ts';
import { caseArrays, runKernel } from './verify.ts';
import { variantOf } from './watchdog.ts';

const found = await dawnDevice();

/** Adds workgroup, grid and invocation into one number an element, so that any wrong index shows. */
const indices = kernel({
  name: 'indices',
  tensors: [readWrite('y', 'u32')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ y: n }),
  source: () => ({
    key: 'indices',
    body: () => `fn run(group: vec3u, groups: vec3u, local: u32) {
  let i = group.x * 2u + local;
  if (i < dims.n) { store_y(i, i * 8u + groups.x); }
}`,
    width: 1,
    workgroupSize: 2,
    workgroups: ({ n }) => [Math.ceil(n / 2), 1, 1],
  }),
  cpu({ y }, { n }) {
    for (let i = 0; i < n; i++) y[i] = i * 8 + Math.ceil(n / 2);
  },
  cases: [{ n: 1 }],
  tolerance: { absolute: 0, relative: 0 },
  cost: () => ({ flops: 0, bytes: 0 }),
});

/**
 * One for each way in which a text uses its place in the grid; A product of four steps of K is what a software adapter compiles in a moment.
 */
const CUT: readonly { readonly kernel: string; readonly family: AdapterFamily; readonly dims: Dims }[] = [
  { kernel: 'matmul.NT', family: 'software', dims: { M: 300, N: 40, K: 4 } },
  { kernel: 'matmul.NN', family: 'gpu', dims: { M: 70, N: 40, K: 4 } },
  { kernel: 'attention.forward', family: 'software', dims: { B: 3, T: 37, H: 5, K: 5, D: 4 } },
  { kernel: 'layerNorm.forward', family: 'gpu', dims: { N: 37, C: 60, epsilon: 1e-5 } },
  { kernel: 'columnSum', family: 'gpu', dims: { N: 37, C: 60 } },
  { kernel: 'swiGlu.forward', family: 'gpu', dims: { N: 37, I: 200 } },
];

describe.skipIf(!found.ok)(`launches in boxes${found.ok ? '' : ` (skipped: ${found.reason})`}`, () => {
  let dawn: DawnDevice;
  let pipelines: PipelineCache;
  beforeAll(() => {
    if (!found.ok) return;
    dawn = found.value;
    pipelines = new PipelineCache(dawn.device);
  });

  test('a grid of 70,001 workgroups, more than one dispatch may have, meets every element once', async () => {
    const dims = { n: 140_001 };
    const { y } = await runKernel(dawn.device, 'gpu', indices, dims, { y: new Uint32Array(dims.n) }, pipelines);
    const expected = new Uint32Array(dims.n);
    indices.cpu({ y: expected }, dims);
    expect(y.findIndex((value, i) => value !== expected[i])).toBe(-1);
  });

  test.each(CUT)(
    '$kernel ($family) in three boxes has the bits of one dispatch',
    async ({ kernel: name, family, dims }) => {
      const cut = kernels.find((candidate) => candidate.name === name);
      invariant(cut, `a kernel ${name}`);
      expect(variantOf(cut, family, dims, 3).inBoxes, 'is cut').toBe(true);
      const run = (boxes: number) => runKernel(dawn.device, family, cut, dims, caseArrays(cut, dims), pipelines, boxes);
      expect(await run(3)).toEqual(await run(1));
    },
  );
});
