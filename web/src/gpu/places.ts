/** What kernel calls of a model's rows are made with: sizes of a micro-batch, and where each name lies. */
import type { GpuClass } from '../../../shaders/family/adapterFamily.ts';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import type { Room } from './slicedGradients.ts';

interface Tensors {
  /** An activation, a gradient or a by-product, by name. */
  readonly buffer: (name: string) => BufferSlice;
  /** A tensor, or the one matrix of several joined ones. */
  readonly value: (...tensors: readonly string[]) => BufferSlice;
  readonly gradient: (...tensors: readonly string[]) => BufferSlice;
  /** The family's weights stand: no gradient of theirs is made. */
  readonly stands: boolean;
}

/** Where the names of a program lie for one micro-batch size in one slot. */
export interface Places extends Tensors {
  readonly samples: number;
  readonly sequence: number;
  readonly rows: number;
  /** C: width of the stream, and of what is normalised. */
  readonly width: number;
  /** 1/(B·T) of the whole step: what each token's loss counts. */
  readonly lossScale: number;
  /** Of an activation or a weight. */
  readonly elementBytes: number;
  readonly vocabulary: number;
  /** What the device binds of a buffer. */
  readonly bindingBytes: number;
  /** What is not in use while the loss is worked on; absent: nothing. */
  readonly unused?: Room | undefined;
  readonly family: AdapterFamily;
  readonly gpuClass?: GpuClass | undefined;
  /** Of a model that trains on preference pairs, a window each: `Model.beta`. Absent: every row has its own loss, and the adapter. */
  readonly beta?: number;
  /** Products are made of few rows (family/fewRows.ts). */
  readonly fewRows?: true;
}
