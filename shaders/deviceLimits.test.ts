/** The limits that are asked for, against what the kernels use. */
import { expect, test } from 'vitest';
import { requiredLimits } from './deviceLimits.ts';
import { dimsBytes } from './kernel.ts';
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
    expect(dimsBytes(kernel), kernel.name).toBeLessThanOrEqual(256);
  }
});
