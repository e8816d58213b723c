/**
 * The dims of a dispatch: its kernel's own and, where it is a box of a grid, where that lies (grid.ts). They reach the GPU as
 * immediates, which a command buffer holds itself, where the browser has them; else each launch has a uniform buffer and a
 * bind group for them. The text is the same but for the line that declares them, so no bit depends on it.
 */
import { invariant } from '../../swarm/base.ts';
import type { Box, Grid } from './grid.ts';
import type { DimSlot, Dims, Kernel } from './kernel.ts';
import { u32 } from './slots.ts';

export type DimsPlace = 'immediate' | 'uniform';

/** WebGPU's guaranteed maxImmediateSize. A dim takes four bytes. */
export const IMMEDIATE_BYTES = 64;
/** WebGPU's guaranteed minUniformBufferOffsetAlignment: the dims of a launch's dispatches share one buffer. */
export const UNIFORM_BYTES = 256;

const withImmediates = new WeakSet<GPUDevice>();

/** Once for a new device, of the `gpu` that it is from: a device does not say what its browser's WGSL has. */
export function allowImmediates(device: GPUDevice, gpu: Partial<Pick<GPU, 'wgslLanguageFeatures'>>): void {
  const isKnown = gpu.wgslLanguageFeatures?.has('immediate_address_space') ?? false;
  if (isKnown && device.limits.maxImmediateSize >= IMMEDIATE_BYTES) withImmediates.add(device);
}

const BOX_DIMS = ['firstX', 'firstY', 'firstZ', 'groupsX', 'groupsY', 'groupsZ'] as const;

/** The whole grid's size goes with each box: its own is all that WGSL tells it. */
export const boxDims = ({ first }: Box, grid: Grid): Dims<(typeof BOX_DIMS)[number]> => ({
  ...{ firstX: first[0], firstY: first[1], firstZ: first[2] },
  ...{ groupsX: grid[0], groupsY: grid[1], groupsZ: grid[2] },
});

/** The fields of `dims`, in their order. */
export const dimSlots = ({ dims }: Kernel, inBoxes: boolean): readonly DimSlot[] =>
  inBoxes ? [...dims, ...BOX_DIMS.map(u32)] : dims;

/** Dims that are too many to be immediates are a uniform everywhere. */
export const dimsPlace = (device: GPUDevice, kernel: Kernel, inBoxes: boolean): DimsPlace =>
  withImmediates.has(device) && 4 * dimSlots(kernel, inBoxes).length <= IMMEDIATE_BYTES ? 'immediate' : 'uniform';

/** Four bytes a field, rounded up to 16; a missing field is our own error. */
export function packDims(kernel: Kernel, inBoxes: boolean, dims: Dims): ArrayBuffer {
  const slots = dimSlots(kernel, inBoxes);
  const view = new DataView(new ArrayBuffer(Math.max(16, Math.ceil(slots.length / 4) * 16)));
  slots.forEach(({ name, type }, index) => {
    const value = dims[name];
    invariant(value !== undefined, `${kernel.name} needs the dim ${name}`);
    if (type === 'u32') view.setUint32(index * 4, value, true);
    else view.setFloat32(index * 4, value, true);
  });
  return view.buffer;
}
