/**
 * Launches in boxes on Dawn: the same bits as in one dispatch, and a grid that one dispatch may not have. Both with dims as
 * immediates and as a uniform.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { kernels } from '../kernels.ts';
import { dawnDevice } from '../testing/dawn.ts';
import { dimsPlace } from './dims.ts';
import { type AdapterFamily, type Dims, kernel } from './kernel.ts';
import { PipelineCache } from './launch.ts';
import { readWrite, u32 } from './slots.ts';
import { caseArrays, runKernel } from './verify.ts';
import { variantOf } from './watchdog.ts';

const found = await dawnDevice();
const plain = await dawnDevice('software', [], 'guaranteed');

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
  { kernel: 'attention.forward', family: 'software', dims: { B: 3, T: 37, H: 5, K: 5, D: 4, scale: 0.5 } },
  { kernel: 'layerNorm.forward', family: 'gpu', dims: { N: 37, C: 60, epsilon: 1e-5 } },
  { kernel: 'columnSum', family: 'gpu', dims: { N: 37, C: 60 } },
  { kernel: 'swiGlu.forward', family: 'gpu', dims: { N: 37, I: 200 } },
];

describe.skipIf(!found.ok)(`launches in boxes${found.ok ? '' : ` (skipped: ${found.reason})`}`, () => {
  const ways: { readonly device: GPUDevice; readonly pipelines: PipelineCache }[] = [];
  beforeAll(() => {
    for (const opened of [found, plain])
      if (opened.ok) ways.push({ device: opened.value.device, pipelines: new PipelineCache(opened.value.device) });
  });

  test('one of the two devices has immediates', () => {
    expect(ways.map(({ device }) => dimsPlace(device, indices, true))).toEqual(['immediate', 'uniform']);
  });

  test('a grid of 70,001 workgroups, more than one dispatch may have, meets every element once', async () => {
    const dims = { n: 140_001 };
    const expected = new Uint32Array(dims.n);
    indices.cpu({ y: expected }, dims);
    for (const { device, pipelines } of ways) {
      const { y } = await runKernel(device, 'gpu', indices, dims, { y: new Uint32Array(dims.n) }, pipelines);
      expect(y.findIndex((value, i) => value !== expected[i])).toBe(-1);
    }
  });

  test.each(CUT)(
    '$kernel ($family) in three boxes has the bits of one dispatch, with immediates and without',
    async ({ kernel: name, family, dims }) => {
      const cut = kernels.find((candidate) => candidate.name === name);
      invariant(cut, `a kernel ${name}`);
      expect(variantOf(cut, family, dims, 3).inBoxes, 'is cut').toBe(true);
      const bits = [];
      for (const { device, pipelines } of ways)
        for (const boxes of [1, 3])
          bits.push(await runKernel(device, family, cut, dims, caseArrays(cut, dims), pipelines, boxes));
      for (const found of bits) expect(found).toEqual(bits[0]);
    },
  );
});
