/**
 * What a kernel is: a table of tensors and dims, WGSL over them, its CPU reference written to be read, its cases and its
 * tolerance. One object serves four readers: the stage that launches it, the tests that compare it, the benchmark that
 * times it and the donor's admission check.
 *
 * The WGSL says nothing of bindings: text.ts declares tensors and dims from the table and gives the body `load_NAME(i)`
 * and `store_NAME(i, value)`, whatever a tensor's numbers are kept as. What varies with the plan is a dim, a field of
 * `dims` (dims.ts); what is tuned stands in the text.
 *
 * A tensor's name ends with its shape, one letter for each dim (`x_NC`: N rows of C), in the table, in WGSL and in the
 * reference alike; tensors without one are flat. The letters: N rows (samples × positions), C width of the stream,
 * T positions of a sample, B samples, H heads of queries, K heads of keys and of values, E = H + 2K heads in a row of
 * queries, keys and values, D width of a head, V vocabulary, I inner width of a gated unit. A product has letters of its own
 * (family/product.ts). The gradient of x is dx.
 */
import type { Grid } from './grid.ts';

/** Which family of a kernel suits an adapter. `software`: no workgroup memory, no barriers, subgroups of 4 in a row. */
export type AdapterFamily = 'software' | 'gpu';

/** Numbers that are read or written at once: f32, vec2f or vec4f in the text. */
export type Width = 1 | 2 | 4;

export interface TensorSlot<Name extends string = string> {
  readonly name: Name;
  readonly access: 'read' | 'readWrite';
  /** f16: only in a kernel that `inHalves` made; packedF16 and packedInt8: that `ofPacked` made. */
  readonly type: 'f32' | 'u32' | 'f16' | 'packedF16' | 'packedInt8';
  /** An activation or a weight: what a donor that computes in halves keeps as f16. Sums and statistics are none. */
  readonly half?: true;
  /** Where it is not the source's own; a u32 tensor is read word by word. */
  readonly width?: Width;
}

export interface DimSlot<Name extends string = string> {
  readonly name: Name;
  readonly type: 'u32' | 'f32';
}

export type Dims<Name extends string = string> = Readonly<Record<Name, number>>;
/** CPU side of the tensors, by slot name. References write their outputs in place. */
export type Arrays<Name extends string = string> = Readonly<Record<Name, Float32Array | Uint32Array>>;

/** What the text of a kernel is made of, for some dims in some family. Sources with equal keys make equal texts. */
export interface Source<Case extends string = string> {
  readonly key: string;
  /** WGSL with `fn run(group: vec3u, groups: vec3u, local: u32)`: a workgroup's place, the grid, the invocation. */
  readonly body: () => string;
  readonly workgroupSize: number;
  /** How tensors are read whose slot does not say it: all alike, or each by its name. */
  readonly width: Width | Readonly<Record<string, Width>>;
  /** `enable` and `diagnostic` directives. */
  readonly directives?: readonly string[];
  /** `run` has the number of its subgroup as a fourth argument. */
  readonly takesSubgroup?: boolean;
  /** Workgroups of a whole launch. */
  workgroups(dims: Dims<Case>): Grid;
}

/** An element of an output: where it lies, and what it is by the formula. */
export interface Drawn {
  readonly tensor: string;
  readonly index: number;
  readonly value: number;
}

/** Single elements by the formula, for shapes whose whole reference takes too long (sampled.ts). */
interface Sampled<Tensor extends string = string, Case extends string = string> {
  /** Fills the inputs that are words (default: zeros). */
  words?(arrays: Arrays<NoInfer<Tensor>>, dims: Dims<NoInfer<Case>>, random: () => number): void;
  /** Mean and deviation of the inputs whose numbers are not drawn with 0 and 1. */
  spread?(dims: Dims<Case>): Partial<Readonly<Record<Tensor, readonly [number, number]>>>;
  /** Some `count` elements, at random. The arrays hold the inputs. */
  draw(
    arrays: Arrays<NoInfer<Tensor>>,
    dims: Dims<NoInfer<Case>>,
    random: () => number,
    count: number,
  ): readonly Drawn[];
  /** What the kernel's tolerance is multiplied by in such a shape: rounding grows with the length of the sums. */
  slack?(dims: Dims<Case>): number;
}

/** `Case`: the dims, and what else a case needs to know its sizes. */
export interface Kernel<Tensor extends string = string, Case extends string = string> {
  /** `layerNorm.forward`: used for labels, tables and messages. */
  readonly name: string;
  readonly tensors: readonly TensorSlot<Tensor>[];
  readonly dims: readonly DimSlot<NoInfer<Case>>[];
  /** Elements of each tensor for these dims. */
  sizes(dims: Dims<Case>): Readonly<Record<Tensor, number>>;
  source(family: AdapterFamily, dims: Dims<Case>): Source<NoInfer<Case>>;
  /** The formula in nested loops, accumulating in float64. */
  cpu(arrays: Arrays<NoInfer<Tensor>>, dims: Dims<NoInfer<Case>>): void;
  readonly sampled?: Sampled<NoInfer<Tensor>, NoInfer<Case>>;
  /** Shapes the tests try; always size 1 and a size that no tile divides. */
  readonly cases: readonly Dims<Case>[];
  /** Fills the inputs of a case (default: seeded normal values; u32 tensors need their own rule). */
  fill?(arrays: Arrays<NoInfer<Tensor>>, dims: Dims<NoInfer<Case>>, random: () => number): void;
  /** |gpu − cpu| ≤ absolute + relative·|cpu|. */
  readonly tolerance: { readonly absolute: number; readonly relative: number };
  /** Floating-point operations and bytes moved by one dispatch, for the benchmark. */
  cost(dims: Dims<Case>): { readonly flops: number; readonly bytes: number };
}

/** A kernel as it is; the names of its tensors and dims are taken from its tables. */
export const kernel = <Tensor extends string, Case extends string>(table: Kernel<Tensor, Case>): Kernel<Tensor, Case> =>
  table;

/** The kernel with the text that it has for `dims`, whatever it runs: a check of few rows tries the text of many. */
export const inTextFor = (kernel: Kernel, dims: Dims): Kernel => ({
  ...kernel,
  source: (family) => kernel.source(family, dims),
});
