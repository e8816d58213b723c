/** The limits that are asked for, against what the kernels use. */
import { expect, test } from 'vitest';
import { at } from '../swarm/base.ts';
import { requiredLimits } from './deviceLimits.ts';
import { LARGE_CASE, matmul } from './family/matmul.ts';
import { GPU_CANDIDATES } from './family/tiles.ts';
import { packDims, UNIFORM_BYTES } from './kernel/dims.ts';
import { kernels } from './kernels.ts';

/** WebGPU's guaranteed limits (the standard's table), but for a large adapter's two sizes. */
const ADAPTER = {
  maxBufferSize: 2 ** 32,
  maxStorageBufferBindingSize: 2 ** 31,
  maxStorageBuffersPerShaderStage: 8,
  maxBindGroups: 4,
  maxComputeWorkgroupsPerDimension: 65_535,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupStorageSize: 16_384,
};
const limitsOf = (adapter: Readonly<Record<string, number>>) =>
  requiredLimits(adapter as unknown as GPUSupportedLimits);

test('an adapter that just keeps the standard is enough, and gives its whole memory', () => {
  const limits = limitsOf(ADAPTER);
  expect(limits).toMatchObject({ ok: true, value: { maxBufferSize: 2 ** 32, maxStorageBuffersPerShaderStage: 8 } });
});

test('an adapter below what the kernels need is refused by name', () => {
  const refused = limitsOf({ ...ADAPTER, maxComputeInvocationsPerWorkgroup: 128 });
  expect(refused).toMatchObject({ ok: false, reason: expect.stringContaining('maxComputeInvocationsPerWorkgroup') });
});

test('no kernel has more tensors, or longer dims, than is asked for', () => {
  for (const kernel of kernels) {
    expect(kernel.tensors.length, kernel.name).toBeLessThanOrEqual(8);
    const dims = packDims(kernel, false, at(kernel.cases, 0));
    expect(dims.byteLength, kernel.name).toBeLessThanOrEqual(UNIFORM_BYTES);
  }
});

test('no tile of the product stages more in workgroup memory than is asked for', () => {
  const staged = GPU_CANDIDATES.filter(({ direct }) => !direct).map((gpu) => {
    const code = matmul({ layout: 'NN', tried: { gpu } })
      .source('gpu', { ...LARGE_CASE, K: 64 })
      .body();
    const arrays = Array.from(code.matchAll(/var<workgroup> \w+: array<vec4f, (\d+)>/g), ([, length]) =>
      Number(length),
    );
    expect(arrays).toHaveLength(2);
    return 16 * arrays.reduce((sum, length) => sum + length, 0);
  });
  expect(Math.max(...staged)).toBe(16 * 16 * (33 + 17));
  expect(Math.max(...staged)).toBeLessThanOrEqual(ADAPTER.maxComputeWorkgroupStorageSize);
});
