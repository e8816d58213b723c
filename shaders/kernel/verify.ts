/**
 * Runs a kernel on a device and compares it with its CPU reference. The comparison is a number, the largest |gpu − cpu|
 * − tolerance over all outputs, so tests, the browser's admission check and the benchmark ask the same question.
 * Imports nothing of Node or the DOM beyond WebGPU.
 */
import { invariant, normal, seededRandom } from '../../swarm/base.ts';
import { halfValue, LARGEST_HALF, packedInt8 } from '../../swarm/wire.ts';
import { halfBits } from './half.ts';
import type { AdapterFamily, Arrays, Dims, Kernel, TensorSlot } from './kernel.ts';
import { type BufferSlice, closeLaunch, createLaunch, encodeLaunch, PipelineCache } from './launch.ts';
import { mapped } from './queueWait.ts';
import { textKey } from './text.ts';
import { variantOf } from './watchdog.ts';

/** Every case of these kernels, with what a test calls it. */
export const caseTable = (kernels: readonly Kernel[]): { kernel: Kernel; dims: Dims; title: string }[] =>
  kernels.flatMap((kernel) =>
    kernel.cases.map((dims) => ({
      kernel,
      dims,
      title: `${kernel.name} ${JSON.stringify(dims).replaceAll('"', '')}`,
    })),
  );

/** All tensors of a case: the kernel's own rule, or seeded normal values (zeros for u32 tensors). */
export function caseArrays<Tensor extends string, Case extends string>(
  kernel: Kernel<Tensor, Case>,
  dims: Dims<Case>,
  seed = 1,
): Arrays<Tensor> {
  const random = seededRandom(seed);
  const sizes = kernel.sizes(dims);
  const drawn = kernel.tensors.map(({ name, type }): [Tensor, Float32Array | Uint32Array] => {
    const length = sizes[name];
    invariant(length !== undefined, `${kernel.name} says no size for ${name}`);
    return [name, type === 'u32' ? new Uint32Array(length) : Float32Array.from({ length }, () => normal(random))];
  });
  const arrays = Object.fromEntries(drawn) as Arrays<Tensor>; // one for each name of the table
  kernel.fill?.(arrays, dims, random);
  return arrays;
}

/** As a slot of this type holds them; halves are filled up to a whole word. */
export function stored(
  { type }: TensorSlot,
  values: Float32Array | Uint32Array,
): Float32Array | Uint32Array | Uint16Array {
  if (type === 'packedInt8') return packedInt8(values);
  if (type !== 'f16' && type !== 'packedF16') return values;
  const bits = new Uint16Array(2 * Math.ceil(values.length / 2));
  values.forEach((value, i) => {
    bits[i] = halfBits(value);
  });
  return bits;
}

function loaded({ type }: TensorSlot, bytes: ArrayBuffer, length: number): Float32Array | Uint32Array {
  if (type === 'f16') return Float32Array.from(new Uint16Array(bytes, 0, length), halfValue);
  return type === 'f32' ? new Float32Array(bytes, 0, length) : new Uint32Array(bytes, 0, length);
}

/** A storage buffer that holds `values` (at least 16 bytes long, so that it can be bound as one vec4). */
function upload(device: GPUDevice, label: string, values: Float32Array | Uint32Array | Uint16Array): GPUBuffer {
  const buffer = device.createBuffer({
    label,
    size: Math.max(16, values.byteLength),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  device.queue.writeBuffer(buffer, 0, values.buffer as ArrayBuffer, values.byteOffset, values.byteLength);
  return buffer;
}

/** One launch, in `boxes` dispatches; resolves to what the `readWrite` tensors hold afterwards. Validation errors reject. */
export async function runKernel<Tensor extends string>(
  device: GPUDevice,
  family: AdapterFamily,
  kernel: Kernel<Tensor>,
  dims: Dims,
  arrays: Arrays<NoInfer<Tensor>>,
  pipelines: PipelineCache = new PipelineCache(device),
  boxes = 1,
): Promise<Arrays<Tensor>> {
  const variant = variantOf(kernel, family, dims, boxes);
  const pipeline = await pipelines.get(kernel, dims, variant);
  device.pushErrorScope('validation');
  const owned: GPUBuffer[] = [];
  const buffers: Record<string, BufferSlice> = {};
  const encoder = device.createCommandEncoder({ label: `verify ${kernel.name}` });
  for (const slot of kernel.tensors) {
    const { name } = slot;
    const given = arrays[name];
    invariant(given, `${kernel.name} needs an array for ${name}`);
    const values = stored(slot, given);
    const buffer = upload(device, `verify ${kernel.name} ${name}`, values);
    owned.push(buffer);
    // Bound at its exact size, so that a read or write past the end shows in the values.
    buffers[name] = { buffer, offset: 0, size: Math.max(4, values.byteLength) };
  }
  const launch = createLaunch({ device, pipeline, kernel, variant, buffers, dims, boxes, label: 'verify' });
  const pass = encoder.beginComputePass({ label: `verify ${kernel.name}` });
  encodeLaunch(pass, launch);
  pass.end();
  const readbacks = kernel.tensors
    .filter(({ access }) => access === 'readWrite')
    .map((slot) => {
      const source = buffers[slot.name];
      const size = source?.size ?? 0;
      const readback = device.createBuffer({
        label: `verify ${kernel.name} ${slot.name} readback`,
        size: Math.max(4, size),
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      });
      owned.push(readback);
      if (source && size > 0) encoder.copyBufferToBuffer(source.buffer, 0, readback, 0, size);
      return { slot, readback, size };
    });
  device.queue.submit([encoder.finish()]);
  const error = await device.popErrorScope();
  try {
    if (error)
      throw new Error(`kernel ${kernel.name} ${textKey(kernel, dims, variant)} does not run: ${error.message}`);
    const outputs: Record<string, Float32Array | Uint32Array> = {};
    await Promise.all(readbacks.map(({ readback }) => mapped(device, readback)));
    for (const { slot, readback, size } of readbacks) {
      const bytes = readback.getMappedRange().slice(0, size);
      outputs[slot.name] = loaded(slot, bytes, arrays[slot.name].length);
    }
    return outputs as Arrays<Tensor>;
  } finally {
    closeLaunch(launch);
    for (const buffer of owned) buffer.destroy();
  }
}

/** What storing a result as a half may change, beside what the kernel's own tolerance allows. */
const HALF_ROUNDING = { absolute: 2 ** -24, relative: 2 ** -10 };
const EXACT = { absolute: 0, relative: 0 };

const orInfinite = (value: number): number =>
  Math.abs(value) > LARGEST_HALF ? value * Number.POSITIVE_INFINITY : value;

export interface Comparison {
  /** Largest |gpu − cpu| − (absolute + relative·|cpu|): at most 0 where the kernel is right, ∞ for a NaN. */
  readonly excess: number;
  /** Largest |gpu − cpu|. */
  readonly error: number;
  /** Where the excess is largest, for a message: `c[17] is 0.5 on the GPU, 0.25 on the CPU`. */
  readonly where: string;
}

/** |actual − expected| beyond the kernel's tolerance, `slack` times it; ∞ for a NaN. */
export function differenceAt(
  kernel: Kernel,
  { type }: TensorSlot,
  actual: number,
  expected: number,
  slack = 1,
): number {
  const { absolute, relative } = kernel.tolerance;
  const rounding = type === 'f16' ? HALF_ROUNDING : EXACT;
  const difference = Object.is(actual, expected) ? 0 : Math.abs(actual - expected);
  const allowed = slack * (absolute + relative * Math.abs(expected));
  return Number.isNaN(difference)
    ? Number.POSITIVE_INFINITY
    : difference - allowed - rounding.absolute - rounding.relative * Math.abs(expected);
}

/** Compares what a device wrote with what the reference wrote. */
export function compareOutputs(kernel: Kernel, gpu: Arrays, cpu: Arrays): Comparison {
  let worst: Comparison = { excess: Number.NEGATIVE_INFINITY, error: 0, where: 'nothing was written' };
  let error = 0;
  for (const slot of kernel.tensors) {
    const { name, access, type } = slot;
    if (access === 'read') continue;
    const actual = gpu[name];
    const expected = cpu[name];
    invariant(actual && expected && actual.length === expected.length, `${kernel.name} wrote no ${name}`);
    for (let i = 0; i < expected.length; i++) {
      const a = actual[i] ?? Number.NaN;
      const e = type === 'f16' ? orInfinite(expected[i] ?? Number.NaN) : (expected[i] ?? Number.NaN);
      const difference = Object.is(a, e) ? 0 : Math.abs(a - e);
      const excess = differenceAt(kernel, slot, a, e);
      error = Math.max(error, Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference);
      if (excess > worst.excess) worst = { excess, error, where: `${name}[${i}] is ${a} on the GPU, ${e} on the CPU` };
    }
  }
  return { ...worst, error };
}

/** Fills a case's inputs, runs reference and device, and compares every element of every output. */
export async function compareKernel(
  device: GPUDevice,
  family: AdapterFamily,
  kernel: Kernel,
  dims: Dims,
  options: { readonly seed?: number; readonly pipelines?: PipelineCache } = {},
): Promise<Comparison> {
  const arrays = caseArrays(kernel, dims, options.seed);
  const gpu = await runKernel(device, family, kernel, dims, arrays, options.pipelines);
  kernel.cpu(arrays, dims);
  return compareOutputs(kernel, gpu, arrays);
}
