/**
 * How long one launch takes: as many in one pass as fill some milliseconds, the least of a few passes. And what an adapter
 * reaches at its best, which every kernel is set beside: a square matrix product, a plain copy.
 */

import { copyIn } from '../../../shaders/arrays/copy.ts';
import { matmul } from '../../../shaders/family/matmul.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import type { Dims, Kernel } from '../../../shaders/kernel/kernel.ts';
import {
  type BufferSlice,
  closeLaunch,
  createLaunch,
  encodeLaunch,
  type PipelineCache,
} from '../../../shaders/kernel/launch.ts';
import { queueDone } from '../../../shaders/kernel/queueWait.ts';
import { caseArrays, stored } from '../../../shaders/kernel/verify.ts';
import { chooseLaunch, learnRates } from '../../../shaders/kernel/watchdog.ts';
import { created, wholeWords } from '../../../web/src/gpu/buffers.ts';
import type { OpenDevice } from '../../../web/src/gpu/device.ts';

const REPETITIONS = 5;
const PASS_MS = 30;
const MOST_IN_A_PASS = 50;
const COPY_BYTES = 64 * 2 ** 20;
/** By a kernel: more than the caches of any GPU hold. */
const COPIED_FLOATS = 64 * 2 ** 20;
/** Sides of the product that a GPU is first taken to be slow for: at the rate assumed then, it is one dispatch. */
const LEARNED_FROM = { M: 512, N: 512, K: 512 };

/** Milliseconds of one. `zeros`: no values are drawn, for tensors too large to fill in JavaScript. */
export async function timeKernel(
  { device, family }: OpenDevice,
  kernel: Kernel,
  dims: Dims,
  pipelines: PipelineCache,
  { zeros = false } = {},
): Promise<number> {
  const choice = chooseLaunch(device, family, kernel, dims);
  const pipeline = await pipelines.get(kernel, dims, choice.variant);
  const arrays = zeros ? {} : caseArrays(kernel, dims);
  const sizes = kernel.sizes(dims);
  const owned: GPUBuffer[] = [];
  const launch = await created(device, kernel.name, () => {
    const buffers = Object.fromEntries(
      kernel.tensors.map((slot): [string, BufferSlice] => {
        const { name, type } = slot;
        const size = Math.max(4, wholeWords((sizes[name] ?? 0) * (type === 'f16' ? 2 : 4)));
        const buffer = device.createBuffer({
          label: `bench ${name}`,
          size: Math.max(16, size),
          usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
        });
        const values = arrays[name];
        if (values) device.queue.writeBuffer(buffer, 0, stored(slot, values) as Float32Array<ArrayBuffer>);
        owned.push(buffer);
        return [name, { buffer, offset: 0, size }];
      }),
    );
    return createLaunch({ device, pipeline, kernel, ...choice, buffers, dims });
  });
  const ms = await timeEach(device, kernel.name, (encoder, count) => {
    const pass = encoder.beginComputePass();
    for (let i = 0; i < count; i++) encodeLaunch(pass, launch);
    pass.end();
  });
  closeLaunch(launch);
  for (const buffer of owned) buffer.destroy();
  return ms;
}

/** Least milliseconds of one of what `encode` puts into a command buffer `count` times; rejects where that is invalid. */
async function timeEach(
  device: GPUDevice,
  what: string,
  encode: (encoder: GPUCommandEncoder, count: number) => void,
): Promise<number> {
  const encoded = (count: number): GPUCommandBuffer => {
    const encoder = device.createCommandEncoder({ label: `bench ${what}` });
    encode(encoder, count);
    return encoder.finish();
  };
  const run = async (count: number): Promise<number> => {
    const commands = encoded(count);
    const begun = performance.now();
    device.queue.submit([commands]);
    await queueDone(device);
    return (performance.now() - begun) / count;
  };
  // An invalid command buffer does nothing, and would be the fastest of all.
  await created(device, what, () => device.queue.submit([encoded(1)]));
  await queueDone(device);
  const count = Math.max(1, Math.min(MOST_IN_A_PASS, Math.round(PASS_MS / (await run(1)))));
  let least = Infinity;
  for (let i = 0; i < REPETITIONS; i++) least = Math.min(least, await run(count));
  return least;
}

/** What this adapter does at its best. */
export interface Peaks {
  readonly productGflops: number;
  readonly copyGigabytesPerSecond: number;
}

/**
 * As a donor does before it joins: until then a GPU is taken for a weak one, and its launches are cut accordingly. Rates of
 * software adapters are near what is assumed of them.
 */
export async function learnFromProduct(opened: OpenDevice, pipelines: PipelineCache): Promise<void> {
  const { device, family, profile } = opened;
  if (profile.software) return;
  const kernel = forDevice(opened, 'f32', matmul({ layout: 'NN' }));
  const { seconds } = chooseLaunch(device, family, kernel, LEARNED_FROM);
  const ms = await timeKernel(opened, kernel, LEARNED_FROM, pipelines, { zeros: true });
  learnRates(device, family, seconds, ms / 1000);
}

/** `side` of the square product: 512 keeps a software adapter busy, 2,048 and more a GPU. */
export async function peaks(opened: OpenDevice, pipelines: PipelineCache, side: number): Promise<Peaks> {
  await learnFromProduct(opened, pipelines);
  const dims = { M: side, N: side, K: side };
  const products: number[] = [];
  for (const layout of ['NN', 'NT', 'TN'] as const) {
    const kernel = forDevice(opened, 'f32', matmul({ layout }));
    const ms = await timeKernel(opened, kernel, dims, pipelines, { zeros: side > 1024 });
    products.push(kernel.cost(dims).flops / ms / 1e6);
  }
  return { productGflops: Math.max(...products), copyGigabytesPerSecond: await copyRate(opened, pipelines) };
}

/**
 * The better of the two ways. A GPU may leave a copy from buffer to buffer to a unit of its own: on an H100 that reaches a
 * quarter of what a kernel does.
 */
async function copyRate(opened: OpenDevice, pipelines: PipelineCache): Promise<number> {
  const byBuffers = await bufferCopyRate(opened.device);
  if (opened.profile.software || opened.device.limits.maxStorageBufferBindingSize < 4 * COPIED_FLOATS) return byBuffers;
  const dims = { n: COPIED_FLOATS, offset: 0 };
  const ms = await timeKernel(opened, copyIn, dims, pipelines, { zeros: true });
  return Math.max(byBuffers, copyIn.cost(dims).bytes / ms / 1e6);
}

/** Bytes read and written by a copy from one buffer to another. */
async function bufferCopyRate(device: GPUDevice): Promise<number> {
  const buffer = (label: string, usage: number) => device.createBuffer({ label, size: COPY_BYTES, usage });
  const source = buffer('copy source', GPUBufferUsage.COPY_SRC);
  const target = buffer('copy target', GPUBufferUsage.COPY_DST);
  const ms = await timeEach(device, 'copy', (encoder, count) => {
    for (let i = 0; i < count; i++) encoder.copyBufferToBuffer(source, 0, target, 0, COPY_BYTES);
  });
  source.destroy();
  target.destroy();
  return (2 * COPY_BYTES) / ms / 1e6;
}
