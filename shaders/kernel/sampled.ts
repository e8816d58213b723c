/**
 * A kernel in a real shape against its formula, at some elements: what a whole reference in JavaScript would take minutes
 * for. The inputs are one drawn stretch again and again, its length a prime, so that no two rows of a matrix are alike;
 * every output is full of it before the run, so that an element that was left out is seen.
 */
import { at, invariant, normal, seededRandom } from '../../swarm/base.ts';
import { halfValue } from '../../swarm/wire.ts';
import { halfBits } from './half.ts';
import type { AdapterFamily, Arrays, Dims, Drawn, Kernel, TensorSlot } from './kernel.ts';
import { type BufferSlice, closeLaunch, createLaunch, encodeLaunch, type PipelineCache } from './launch.ts';
import { emptyWaitOf, mapped } from './queueWait.ts';
import { differenceAt } from './verify.ts';
import { chooseLaunch } from './watchdog.ts';

/** Numbers in the stretch: a prime. */
const STRETCH = 65_521;
const SEED = 20;

interface SampledRun {
  /** At most 0 where every drawn element is right, as of a comparison (verify.ts). */
  readonly excess: number;
  readonly where: string;
  /** From the submit to the values. */
  readonly seconds: number;
}

/** One tensor of words, filled by the kernel's own rule. */
function words({ sampled }: Kernel, { name }: TensorSlot, length: number, dims: Dims) {
  const values = new Uint32Array(length);
  sampled?.words?.({ [name]: values }, dims, seededRandom(SEED));
  return { values, kept: values };
}

/** A slot's numbers as they are kept, and as floats for the formula. */
function repeated(slot: TensorSlot, length: number, turn: number, [mean, deviation]: readonly [number, number]) {
  const random = seededRandom(SEED + turn);
  const isHalf = slot.type === 'f16';
  const bits = new Uint16Array(isHalf ? STRETCH : 0);
  const stretch = Float32Array.from({ length: STRETCH }, (_, i) => {
    const value = mean + deviation * normal(random);
    if (!isHalf) return value;
    bits[i] = halfBits(value);
    return halfValue(at(bits, i));
  });
  const values = new Float32Array(length);
  const kept = isHalf ? new Uint16Array(2 * Math.ceil(length / 2)) : values;
  for (let from = 0; from < length; from += STRETCH) {
    values.set(stretch.subarray(0, length - from), from);
    if (isHalf) kept.set(bits.subarray(0, length - from), from);
  }
  return { values, kept };
}

/** Runs the kernel once and compares some `count` elements. `now`: seconds. Rejects where it does not run. */
export async function compareSampled(
  device: GPUDevice,
  family: AdapterFamily,
  kernel: Kernel,
  dims: Dims,
  { pipelines, count, now }: { readonly pipelines: PipelineCache; readonly count: number; readonly now: () => number },
): Promise<SampledRun> {
  const { sampled } = kernel;
  invariant(sampled, `${kernel.name} has no formula for single elements`);
  const { variant, boxes, seconds } = chooseLaunch(device, family, kernel, dims);
  const pipeline = await pipelines.get(kernel, dims, variant);
  const sizes = kernel.sizes(dims);
  const spread = sampled.spread?.(dims) ?? {};
  const owned: GPUBuffer[] = [];
  device.pushErrorScope('out-of-memory');
  device.pushErrorScope('validation');
  const arrays: Record<string, Float32Array | Uint32Array> = {};
  const buffers: Record<string, BufferSlice> = {};
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  for (const [turn, slot] of kernel.tensors.entries()) {
    const length = sizes[slot.name] ?? 0;
    const { values, kept } =
      slot.type === 'u32'
        ? words(kernel, slot, length, dims)
        : repeated(slot, length, turn, spread[slot.name] ?? [0, 1]);
    arrays[slot.name] = values;
    const size = Math.max(16, kept.byteLength);
    const buffer = device.createBuffer({ label: `sampled ${kernel.name} ${slot.name}`, size, usage });
    owned.push(buffer);
    device.queue.writeBuffer(buffer, 0, kept.buffer as ArrayBuffer);
    buffers[slot.name] = { buffer, offset: 0, size: Math.max(4, kept.byteLength) };
  }
  const drawn = sampled.draw(arrays as Arrays, dims, seededRandom(SEED), count);
  const launch = createLaunch({ device, pipeline, kernel, variant, boxes, seconds, buffers, dims, label: 'sampled' });
  const readback = device.createBuffer({
    label: `sampled ${kernel.name} readback`,
    size: 4 * drawn.length,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  owned.push(readback);
  const begun = now();
  try {
    for (let from = 0; from < launch.dispatches.length; from++) {
      // A submit for each box: none is to keep the screen waiting.
      const encoder = device.createCommandEncoder({ label: `sampled ${kernel.name}` });
      const pass = encoder.beginComputePass();
      encodeLaunch(pass, launch, from, from + 1);
      pass.end();
      device.queue.submit([encoder.finish()]);
    }
    const places = placesOf(kernel, drawn);
    const encoder = device.createCommandEncoder({ label: 'sampled readback' });
    for (const [i, { tensor, word }] of places.entries()) {
      const source = buffers[tensor];
      invariant(source, `${kernel.name} has ${tensor}`);
      encoder.copyBufferToBuffer(source.buffer, 4 * word, readback, 4 * i, 4);
    }
    device.queue.submit([encoder.finish()]);
    const [invalid, memory] = await Promise.all([device.popErrorScope(), device.popErrorScope()]);
    if (memory) throw new OutOfRoom(`no memory for ${kernel.name} in the shape ${JSON.stringify(dims)}`);
    if (invalid) throw new Error(`${kernel.name} does not run: ${invalid.message}`);
    await mapped(device, readback);
    const seconds = Math.max(0, now() - begun - emptyWaitOf(device).leastSeconds);
    const bytes = new DataView(readback.getMappedRange());
    let worst = { excess: Number.NEGATIVE_INFINITY, where: 'nothing was drawn' };
    for (const [i, { tensor, index, value }] of drawn.entries()) {
      const { slot, isHalf, high } = at(places, i);
      const actual = isHalf ? halfValue(bytes.getUint16(4 * i + (high ? 2 : 0), true)) : bytes.getFloat32(4 * i, true);
      const excess = differenceAt(kernel, slot, actual, value, sampled.slack?.(dims) ?? 1);
      if (excess > worst.excess) {
        worst = { excess, where: `${tensor}[${index}] is ${actual} on the GPU, ${value} on the CPU` };
      }
    }
    return { ...worst, seconds };
  } finally {
    closeLaunch(launch);
    for (const buffer of owned) buffer.destroy();
  }
}

/** The device has no memory for this shape: nothing is said of the kernel. */
export class OutOfRoom extends Error {}

/** The word of its tensor that each element lies in. */
function placesOf(kernel: Kernel, drawn: readonly Drawn[]) {
  const slots = new Map(kernel.tensors.map((slot) => [slot.name, slot]));
  return drawn.map(({ tensor, index }) => {
    const slot = slots.get(tensor);
    invariant(slot, `${kernel.name} has ${tensor}`);
    const isHalf = slot.type === 'f16';
    return { tensor, slot, isHalf, word: isHalf ? index >> 1 : index, high: index % 2 === 1 };
  });
}
