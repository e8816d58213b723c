/** What a time must not be: of launches cut for a weaker GPU, of an invalid one, of a lost device, of ticks. */
import { expect, test } from 'vitest';
import { countPass } from '../../../shaders/arrays/countPass.ts';
import type { Kernel } from '../../../shaders/kernel/kernel.ts';
import { createLaunch, PipelineCache } from '../../../shaders/kernel/launch.ts';
import { dawnDevice, nullDevice } from '../../../shaders/testing/dawn.ts';
import { invariant } from '../../../swarm/base.ts';
import type { OpenDevice } from '../../../web/src/gpu/device.ts';
import { timesOf } from './profile.ts';
import { peaks, timeKernel } from './timing.ts';
import { unlessLost } from './unlessLost.ts';

/** A GPU by its word, that does everything in no time. */
async function instantGpu(): Promise<OpenDevice> {
  const found = await nullDevice();
  invariant(found.ok, 'Dawn has a null adapter');
  const profile = { vendor: '', architecture: '', description: '', software: false, browser: '' };
  return { device: found.value, family: 'gpu', units: [], profile };
}

test('the square product of a GPU is one dispatch, once a smaller one was measured', async () => {
  const gpu = await instantGpu();
  const pipelines = new PipelineCache(gpu.device);
  const get = pipelines.get.bind(pipelines);
  const inBoxes: boolean[] = [];
  pipelines.get = (kernel, dims, variant) => {
    inBoxes.push(variant.inBoxes);
    return get(kernel, dims, variant);
  };
  await peaks(gpu, pipelines, 2048);
  expect(inBoxes).toEqual([false, false, false, false]); // the smaller one, NN, NT, TN
});

/** Its text reads four floats at once, from a buffer of one. */
const invalid: Kernel = {
  name: 'invalid',
  tensors: [{ name: 'x', access: 'readWrite', type: 'f32' }],
  dims: [],
  sizes: () => ({ x: 1 }),
  source: () => ({
    key: 'invalid',
    body: () => 'fn run(group: vec3u, groups: vec3u, local: u32) { store_x(0u, vec4f(1)); }',
    width: 4,
    workgroupSize: 1,
    workgroups: () => [1, 1, 1],
  }),
  cpu() {},
  cases: [],
  tolerance: { absolute: 0, relative: 0 },
  cost: () => ({ flops: 0, bytes: 0 }),
};

test('what WebGPU refuses has no time: neither an invalid launch nor buffers beyond the limits', async () => {
  const gpu = await instantGpu();
  const timed = (kernel: Kernel) => timeKernel(gpu, kernel, {}, new PipelineCache(gpu.device), { zeros: true });
  await expect(timed(invalid)).rejects.toThrow(/^invalid GPU objects for invalid: .*at least 16 bytes/s);
  await expect(timed({ ...invalid, sizes: () => ({ x: 2 ** 31 }) })).rejects.toThrow(/for invalid: /);
});

test('a lost device ends a benchmark with a sentence, also where it was the work that failed', async () => {
  const sentence = expect.stringMatching(/^the GPU was lost while it was measured: ./);
  for (const work of [() => new Promise(() => {}), () => Promise.reject(new Error('aborted'))]) {
    const { device } = await instantGpu();
    const ended = unlessLost(device, work);
    device.destroy();
    expect(await ended).toEqual({ ok: false, reason: sentence });
  }
  const { device } = await instantGpu();
  expect(await unlessLost(device, async () => 7)).toEqual({ ok: true, value: 7 });
  await expect(unlessLost(device, () => Promise.reject(new Error('a bug')))).rejects.toThrow('a bug');
});

test('timestamps of Dawn for Node are no multiples of 65,536 ns', async () => {
  const found = await dawnDevice();
  if (!found.ok || !found.value.device.features.has('timestamp-query')) return console.warn('skipped: no timestamps');
  const { device, family } = found.value;
  const variant = { family, inBoxes: false };
  const pipeline = await new PipelineCache(device).get(countPass, {}, variant);
  const buffer = device.createBuffer({ size: 256, usage: GPUBufferUsage.STORAGE });
  const buffers = Object.fromEntries(countPass.tensors.map(({ name }) => [name, { buffer }]));
  const launch = createLaunch({ device, pipeline, kernel: countPass, variant, buffers, dims: {} });
  const times = await timesOf(device, Array(8).fill(launch));
  expect(times.some((ms) => (ms * 1e6) % 65_536 !== 0)).toBe(true);
});
