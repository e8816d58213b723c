/**
 * From a kernel's table to something a compute pass can run. The binding table alone says what the layouts are, so a
 * launch (pipeline, bind groups, workgroup counts) is made once when a plan arrives and encoded any number of times
 * without allocating.
 */
import { invariant } from '../../swarm/base.ts';
import { boxDims, type DimsPlace, dimsPlace, IMMEDIATE_BYTES, packDims, UNIFORM_BYTES } from './dims.ts';
import { boxesOf, type Grid, MAX_WORKGROUPS_PER_DIMENSION } from './grid.ts';
import type { AdapterFamily, Dims, Kernel } from './kernel.ts';
import type { PackedAs } from './ofPacked.ts';
import { textKey, textOf, type Variant } from './text.ts';

/** The stretch of a buffer that a slot is bound to; offsets are multiples of 256 bytes. Default: the whole buffer. */
export interface BufferSlice {
  readonly buffer: GPUBuffer;
  readonly offset?: number;
  readonly size?: number;
  /** How the numbers lie there, where they are neither floats nor what halves are kept as. */
  readonly packed?: PackedAs;
}

export interface Launch {
  readonly kernel: Kernel;
  /** As it was made. */
  readonly dims: Dims;
  readonly pipeline: GPUComputePipeline;
  readonly variant: Variant;
  readonly tensors: GPUBindGroup;
  /** Null: the dims are immediates. */
  readonly dimsBuffer: GPUBuffer | null;
  readonly dispatches: readonly Dispatch[];
  /** Predicted time of all dispatches; 0: nobody asked (watchdog.ts). */
  readonly seconds: number;
}

/** One dispatch of a launch: the whole grid, or a box of it. */
interface Dispatch {
  readonly size: Grid;
  /** The dims that only a box has. */
  readonly box: Dims;
  /** All of its dims, as the GPU has them. */
  readonly packed: Uint8Array<ArrayBuffer>;
  /** Null: the dims are immediates. */
  readonly dimsGroup: GPUBindGroup | null;
}

interface Layouts {
  readonly tensors: GPUBindGroupLayout;
  /** Null: the dims are immediates. */
  readonly dims: GPUBindGroupLayout | null;
  readonly pipeline: GPUPipelineLayout;
}

/** Kernels with the same sequence of accesses share layouts. */
const layoutsOfDevice = new WeakMap<GPUDevice, Map<string, Layouts>>();

function layouts(device: GPUDevice, kernel: Kernel, place: DimsPlace): Layouts {
  const known = layoutsOfDevice.get(device) ?? new Map<string, Layouts>();
  layoutsOfDevice.set(device, known);
  const key = `${place} ${kernel.tensors.map(({ access }) => (access === 'read' ? 'r' : 'w')).join('')}`;
  const found = known.get(key);
  if (found) return found;
  const tensors = device.createBindGroupLayout({
    label: `tensors ${key}`,
    entries: kernel.tensors.map(({ access }, binding) => ({
      binding,
      visibility: GPUShaderStage.COMPUTE,
      buffer: { type: access === 'read' ? 'read-only-storage' : 'storage' },
    })),
  });
  const immediate = (): Layouts => ({
    tensors,
    dims: null,
    pipeline: device.createPipelineLayout({
      label: `kernel ${key}`,
      bindGroupLayouts: [tensors],
      immediateSize: IMMEDIATE_BYTES,
    }),
  });
  const uniform = (): Layouts => {
    const dims = device.createBindGroupLayout({
      label: 'dims',
      entries: [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'uniform' } }],
    });
    const bindGroupLayouts = [tensors, dims];
    return { tensors, dims, pipeline: device.createPipelineLayout({ label: `kernel ${key}`, bindGroupLayouts }) };
  };
  const made = place === 'immediate' ? immediate() : uniform();
  known.set(key, made);
  return made;
}

/** Rejects with an Error that names the kernel and what the WGSL compiler said. */
export async function compileKernel(
  device: GPUDevice,
  kernel: Kernel,
  dims: Dims,
  variant: Variant,
): Promise<GPUComputePipeline> {
  const label = `${kernel.name} ${textKey(kernel, dims, variant)}`;
  // The module's own error is repeated, in better words, by the rejection below: keep it from the uncaptured handler.
  device.pushErrorScope('validation');
  const place = dimsPlace(device, kernel, variant.inBoxes);
  const module = device.createShaderModule({ label, code: textOf(kernel, dims, variant, place) });
  const moduleError = device.popErrorScope();
  try {
    return await device.createComputePipelineAsync({
      label,
      layout: layouts(device, kernel, place).pipeline,
      compute: { module, entryPoint: 'main' },
    });
  } catch (cause) {
    const { messages } = await module.getCompilationInfo();
    const lines = messages
      .filter(({ type }) => type === 'error')
      .map(({ lineNum, linePos, message }) => `${lineNum}:${linePos} ${message}`);
    const reason = lines.length > 0 ? lines.join('\n') : cause instanceof Error ? cause.message : String(cause);
    throw new Error(`kernel ${label} does not compile: ${reason}`, { cause });
  } finally {
    await moduleError;
  }
}

/** One pipeline for each text and device, however many launches ask for it; compilations run in parallel. */
export class PipelineCache {
  readonly #device: GPUDevice;
  readonly #pipelines = new Map<string, Promise<GPUComputePipeline>>();

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  get(kernel: Kernel, dims: Dims, variant: Variant): Promise<GPUComputePipeline> {
    const key = textKey(kernel, dims, variant);
    const found = this.#pipelines.get(key);
    if (found) return found;
    const made = compileKernel(this.#device, kernel, dims, variant);
    this.#pipelines.set(key, made);
    made.catch(() => this.#pipelines.delete(key)); // a driver may be out of memory for a moment
    return made;
  }

  /** Starts all compilations at once; resolves when the last is done, rejects with the first failure. */
  async precompile(wanted: Iterable<readonly [Kernel, Dims]>, family: AdapterFamily): Promise<void> {
    await Promise.all(Array.from(wanted, ([kernel, dims]) => this.get(kernel, dims, { family, inBoxes: false })));
  }

  get size(): number {
    return this.#pipelines.size;
  }
}

interface LaunchRequest {
  readonly device: GPUDevice;
  readonly pipeline: GPUComputePipeline;
  readonly kernel: Kernel;
  readonly variant: Variant;
  readonly buffers: Readonly<Record<string, BufferSlice>>;
  readonly dims: Dims;
  /** Dispatches at least, of a variant in boxes, and the time they are predicted to take: from `chooseLaunch`. */
  readonly boxes?: number;
  readonly seconds?: number;
  /** Says which launch it is in labels and messages: `layer.3 qkv`. */
  readonly label?: string;
}

export function createLaunch({
  device,
  pipeline,
  kernel,
  variant,
  buffers,
  dims,
  boxes: least = 1,
  seconds = 0,
  label,
}: LaunchRequest): Launch {
  const name = label === undefined ? kernel.name : `${kernel.name} (${label})`;
  const grid = kernel.source(variant.family, dims).workgroups(dims);
  for (const count of variant.inBoxes ? [] : grid) {
    invariant(count >= 1 && count <= MAX_WORKGROUPS_PER_DIMENSION, `${name} wants ${grid.join('×')} workgroups`);
  }
  const layout = layouts(device, kernel, dimsPlace(device, kernel, variant.inBoxes));
  const tensors = device.createBindGroup({
    label: `${name} tensors`,
    layout: layout.tensors,
    entries: kernel.tensors.map((slot, binding) => {
      const slice = buffers[slot.name];
      invariant(slice, `${name} needs a buffer for ${slot.name}`);
      return { binding, resource: slice };
    }),
  });
  const parts = variant.inBoxes
    ? boxesOf(grid, least).map((box) => ({ size: box.size, box: boxDims(box, grid) }))
    : [{ size: grid, box: {} }];
  const dimsBuffer =
    layout.dims &&
    device.createBuffer({
      label: `${name} dims`,
      size: parts.length * UNIFORM_BYTES,
      usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
    });
  const dispatches = parts.map(({ size, box }, index): Dispatch => {
    const packed = new Uint8Array(packDims(kernel, variant.inBoxes, { ...dims, ...box }));
    if (!layout.dims || !dimsBuffer) return { size, box, packed, dimsGroup: null };
    const resource = { buffer: dimsBuffer, offset: index * UNIFORM_BYTES, size: packed.byteLength };
    const dimsGroup = device.createBindGroup({
      label: `${name} dims`,
      layout: layout.dims,
      entries: [{ binding: 0, resource }],
    });
    return { size, box, packed, dimsGroup };
  });
  const launch = { kernel, dims, pipeline, variant, tensors, dimsBuffer, dispatches, seconds };
  updateDims(device, launch, dims);
  return launch;
}

/**
 * Changes what varies from step to step (a learning rate, a clip scale) for what is submitted from now on. The workgroup
 * counts stay as they are.
 */
export function updateDims(device: GPUDevice, launch: Launch, dims: Dims): void {
  const { kernel, variant, dimsBuffer } = launch;
  for (const [index, { packed, box }] of launch.dispatches.entries()) {
    packed.set(new Uint8Array(packDims(kernel, variant.inBoxes, { ...dims, ...box })));
    if (dimsBuffer) device.queue.writeBuffer(dimsBuffer, index * UNIFORM_BYTES, packed);
  }
}

/** The launch of one dispatch with other dims, in the text that it has, which take another grid: its own dims change, too. */
export function resized(device: GPUDevice, launch: Launch, dims: Dims): Launch {
  updateDims(device, launch, dims);
  const size = launch.kernel.source(launch.variant.family, launch.dims).workgroups(dims);
  return { ...launch, dispatches: launch.dispatches.map((dispatch) => ({ ...dispatch, size })) };
}

/** Frees what only a launch owns. */
export const closeLaunch = ({ dimsBuffer }: Launch): void => dimsBuffer?.destroy();

/** All dispatches of a launch, or those from `from` up to `to`. */
export function encodeLaunch(
  pass: GPUComputePassEncoder,
  launch: Launch,
  from = 0,
  to: number = launch.dispatches.length,
): void {
  pass.setPipeline(launch.pipeline);
  pass.setBindGroup(0, launch.tensors);
  for (const { size, packed, dimsGroup } of launch.dispatches.slice(from, to)) {
    if (dimsGroup) pass.setBindGroup(1, dimsGroup);
    else pass.setImmediates(0, packed);
    pass.dispatchWorkgroups(...size);
  }
}
