/**
 * From a kernel's table to something a compute pass can run. The binding table alone says what the layouts are, so a
 * launch (pipeline, two bind groups, workgroup counts) is made once when a plan arrives and encoded any number of times
 * without allocating.
 */
import { invariant } from '../../swarm/base.ts';
import { BOX_BYTES, boxData, boxesOf, type Grid, MAX_WORKGROUPS_PER_DIMENSION } from './grid.ts';
import { type AdapterFamily, type Dims, dimsBytes, type Kernel, packDims } from './kernel.ts';
import { textKey, textOf, type Variant } from './text.ts';

/** WebGPU's guaranteed minUniformBufferOffsetAlignment: a launch's dims and its boxes' uniforms share one buffer. */
const UNIFORM_ALIGNMENT_BYTES = 256;

/** The stretch of a buffer that a slot is bound to; offsets are multiples of 256 bytes. Default: the whole buffer. */
export interface BufferSlice {
  readonly buffer: GPUBuffer;
  readonly offset?: number;
  readonly size?: number;
}

export interface Launch {
  readonly kernel: Kernel;
  /** As it was made. */
  readonly dims: Dims;
  readonly pipeline: GPUComputePipeline;
  readonly tensors: GPUBindGroup;
  readonly dimsGroup: GPUBindGroup;
  /** The dims, and behind them where each box of the grid begins. */
  readonly dimsBuffer: GPUBuffer;
  readonly dispatches: readonly BoxedDispatch[];
  /** Predicted time of all dispatches; 0: nobody asked (watchdog.ts). */
  readonly seconds: number;
}

/** One dispatch of a launch: the whole grid, or a box of it. */
interface BoxedDispatch {
  readonly size: Grid;
  readonly box: GPUBindGroup | null;
}

interface Layouts {
  readonly tensors: GPUBindGroupLayout;
  readonly dims: GPUBindGroupLayout;
  readonly box: GPUBindGroupLayout;
  readonly pipeline: GPUPipelineLayout;
  readonly pipelineInBoxes: GPUPipelineLayout;
}

/** Kernels with the same sequence of accesses share layouts. */
const layoutsOfDevice = new WeakMap<GPUDevice, Map<string, Layouts>>();

function layouts(device: GPUDevice, kernel: Kernel): Layouts {
  const known = layoutsOfDevice.get(device) ?? new Map<string, Layouts>();
  layoutsOfDevice.set(device, known);
  const key = kernel.tensors.map(({ access }) => (access === 'read' ? 'r' : 'w')).join('');
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
  const uniform = (label: string) =>
    device.createBindGroupLayout({
      label,
      entries: [{ binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: 'uniform' } }],
    });
  const dims = uniform('dims');
  const box = uniform('box');
  const pipelineOf = (label: string, ...bindGroupLayouts: GPUBindGroupLayout[]) =>
    device.createPipelineLayout({ label: `${label} ${key}`, bindGroupLayouts });
  const made: Layouts = {
    tensors,
    dims,
    box,
    pipeline: pipelineOf('kernel', tensors, dims),
    pipelineInBoxes: pipelineOf('kernel in boxes', tensors, dims, box),
  };
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
  const module = device.createShaderModule({ label, code: textOf(kernel, dims, variant) });
  const moduleError = device.popErrorScope();
  const { pipeline, pipelineInBoxes } = layouts(device, kernel);
  try {
    return await device.createComputePipelineAsync({
      label,
      layout: variant.inBoxes ? pipelineInBoxes : pipeline,
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
  const boxes = variant.inBoxes ? boxesOf(grid, least) : [];
  for (const count of variant.inBoxes ? [] : grid) {
    invariant(count >= 1 && count <= MAX_WORKGROUPS_PER_DIMENSION, `${name} wants ${grid.join('×')} workgroups`);
  }
  const { tensors: tensorsLayout, dims: dimsLayout, box: boxLayout } = layouts(device, kernel);
  const dimsSize = dimsBytes(kernel);
  invariant(dimsSize <= UNIFORM_ALIGNMENT_BYTES, `${name} has ${dimsSize} bytes of dims`);
  const dimsBuffer = device.createBuffer({
    label: `${name} dims`,
    size: boxes.length === 0 ? dimsSize : boxes.length * UNIFORM_ALIGNMENT_BYTES + BOX_BYTES,
    usage: GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST,
  });
  device.queue.writeBuffer(dimsBuffer, 0, packDims(kernel, dims));
  const tensors = device.createBindGroup({
    label: `${name} tensors`,
    layout: tensorsLayout,
    entries: kernel.tensors.map((slot, binding) => {
      const slice = buffers[slot.name];
      invariant(slice, `${name} needs a buffer for ${slot.name}`);
      return { binding, resource: slice };
    }),
  });
  const dimsGroup = device.createBindGroup({
    label: `${name} dims`,
    layout: dimsLayout,
    entries: [{ binding: 0, resource: { buffer: dimsBuffer, offset: 0, size: dimsSize } }],
  });
  const dispatches: readonly BoxedDispatch[] = variant.inBoxes
    ? boxes.map((box, index) => {
        const offset = (index + 1) * UNIFORM_ALIGNMENT_BYTES;
        device.queue.writeBuffer(dimsBuffer, offset, boxData(box, grid));
        const entries = [{ binding: 0, resource: { buffer: dimsBuffer, offset, size: BOX_BYTES } }];
        return { size: box.size, box: device.createBindGroup({ label: `${name} box`, layout: boxLayout, entries }) };
      })
    : [{ size: grid, box: null }];
  return { kernel, dims, pipeline, tensors, dimsGroup, dimsBuffer, dispatches, seconds };
}

/** Changes what varies from step to step (a learning rate, a clip scale). The workgroup counts stay as they are. */
export function updateDims(device: GPUDevice, launch: Launch, dims: Dims): void {
  device.queue.writeBuffer(launch.dimsBuffer, 0, packDims(launch.kernel, dims));
}

/** All dispatches of a launch, or those from `from` up to `to`. */
export function encodeLaunch(
  pass: GPUComputePassEncoder,
  launch: Launch,
  from = 0,
  to: number = launch.dispatches.length,
): void {
  pass.setPipeline(launch.pipeline);
  pass.setBindGroup(0, launch.tensors);
  pass.setBindGroup(1, launch.dimsGroup);
  for (const { size, box } of launch.dispatches.slice(from, to)) {
    if (box) pass.setBindGroup(2, box);
    pass.dispatchWorkgroups(...size);
  }
}
