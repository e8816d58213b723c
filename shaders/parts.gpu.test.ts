/** Launches in parts on Dawn: the same bits as in one dispatch, and a grid that one dispatch may not have. */
import { beforeAll, describe, expect, test } from 'vitest';
import { invariant } from '../swarm/base.ts';
import type { AdapterFamily, Dims, Kernel } from './kernel.ts';
import { kernels } from './kernels.ts';
import { PipelineCache } from './launch.ts';
import { inParts } from './parts.ts';
import { type DawnDevice, dawnDevice } from './testing/dawn.ts';
import { caseArrays, runKernel } from './verify.ts';

const found = await dawnDevice();

/** Adds workgroup, grid and invocation into one number an element, so that any wrong index shows. */
const indices: Kernel = {
  name: 'indices',
  tensors: [{ name: 'y', access: 'readWrite', type: 'u32' }],
  dims: [{ name: 'n', type: 'u32' }],
  sizes: ({ n }) => ({ y: n }),
  variant: () => ({
    key: 'indices',
    code: `struct Dims { n: u32 }
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
@group(1) @binding(0) var<uniform> dims: Dims;
@compute @workgroup_size(2)
fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
  @builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32,
) {
  let i = group.x * 2u + local;
  if (i < dims.n) { y[i] = i * 8u + (id.x - i) * 4u + groups.x; }
}`,
    entryPoint: 'main',
    subgroups: false,
    workgroups: ({ n }) => [Math.ceil(n / 2), 1, 1],
  }),
  cpu({ y }, { n }) {
    for (let i = 0; i < n; i++) y[i] = i * 8 + Math.ceil(n / 2);
  },
  cases: [],
  tolerance: { absolute: 0, relative: 0 },
  cost: () => ({ flops: 0, bytes: 0 }),
};

/**
 * One for each way in which a text uses its place in the grid; the unit test beside this one cuts the text of all. A
 * product of four steps of K is what a software adapter compiles in a moment.
 */
const CUT: readonly { readonly kernel: string; readonly family: AdapterFamily; readonly dims: Dims }[] = [
  { kernel: 'matmul.NT', family: 'software', dims: { M: 300, N: 40, K: 4 } },
  { kernel: 'matmul.NN', family: 'gpu', dims: { M: 70, N: 40, K: 4 } },
  { kernel: 'attention.forward', family: 'software', dims: { B: 3, T: 37, H: 5, K: 5, D: 4 } },
  { kernel: 'layerNorm.forward', family: 'gpu', dims: { N: 37, C: 60, epsilon: 1e-5 } },
  { kernel: 'columnSum', family: 'gpu', dims: { N: 37, C: 60 } },
  { kernel: 'swiGlu.forward', family: 'gpu', dims: { N: 37, I: 200 } },
];

describe.skipIf(!found.ok)(`launches in parts${found.ok ? '' : ` (skipped: ${found.reason})`}`, () => {
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
    '$kernel ($family) in three parts has the bits of one dispatch',
    async ({ kernel: name, family, dims }) => {
      const kernel = kernels.find((candidate) => candidate.name === name);
      invariant(kernel, `a kernel ${name}`);
      expect(inParts(kernel.variant(family, dims), dims, 3).inParts, 'is cut').toBe(true);
      const run = (parts: number) =>
        runKernel(dawn.device, family, kernel, dims, caseArrays(kernel, dims), pipelines, parts);
      expect(await run(3)).toEqual(await run(1));
    },
  );
});
