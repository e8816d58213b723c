/** What a stage has the GPU do: a kernel over buffers, before its pipeline is compiled. */
import type { Dims, Kernel } from '../../../shaders/kernel/kernel.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';

export interface KernelCall {
  readonly kernel: Kernel;
  readonly buffers: Readonly<Record<string, BufferSlice>>;
  readonly dims: Dims;
  readonly label: string;
}

/** A buffer for each tensor of the kernel's table. */
export const call = <Tensor extends string, Case extends string>(
  kernel: Kernel<Tensor, Case>,
  buffers: Readonly<Record<NoInfer<Tensor>, BufferSlice>>,
  dims: Dims,
  label: string,
): KernelCall => ({ kernel, buffers, dims, label });
