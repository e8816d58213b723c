/** A dispatch as a stage means it: what is bound to which kernel. */
import type { Dims, Kernel } from '../../../shaders/kernel.ts';
import type { BufferSlice } from '../../../shaders/launch.ts';

/** One dispatch to be made, before its pipeline is compiled. */
export interface Dispatch {
  readonly kernel: Kernel;
  readonly buffers: Readonly<Record<string, BufferSlice>>;
  readonly dims: Dims;
  readonly label: string;
}
