/**
 * What a kernel is: WGSL, its binding table, its CPU reference written to be read, its cases and its tolerance. One
 * object serves four readers: the stage that launches it, the tests that compare it, the benchmark that times it and
 * the donor's admission check.
 *
 * Binding convention: `tensors` are `@group(0) @binding(i)` in table order, `dims` are the fields of the uniform
 * `@group(1) @binding(0)` in table order (each four bytes, no padding between them; the struct is padded to 16 bytes).
 * An entry point takes its place in the grid as `@builtin(…) name: vec3u` right after its `@workgroup_size(…)`, so that
 * parts.ts can run a part of the grid. What varies with the plan is a dim; what is tuned is an `override` constant or,
 * for the matrix product, generated text.
 */

/** Which family of a kernel suits an adapter. `software`: no workgroup memory, no barriers, subgroups of 4 in a row. */
export type AdapterFamily = 'software' | 'gpu';

export interface TensorSlot {
  readonly name: string;
  readonly access: 'read' | 'readWrite';
  /** f16: only in a kernel that `inHalves` made. */
  readonly type: 'f32' | 'u32' | 'f16';
  /** An activation or a weight: what a donor that computes in halves keeps as f16. Sums and statistics are none. */
  readonly half?: true;
}

export interface DimSlot {
  readonly name: string;
  readonly type: 'u32' | 'f32';
}

export type Dims = Readonly<Record<string, number>>;
/** CPU side of the tensors, by slot name. References write their outputs in place. */
export type Arrays = Readonly<Record<string, Float32Array | Uint32Array>>;

/** One compiled form of a kernel. Equal `key`s share a pipeline; the choice is a pure function of (family, dims). */
export interface Variant {
  readonly key: string;
  readonly code: string;
  readonly entryPoint: string;
  readonly constants?: Readonly<Record<string, number>>;
  /** True if the code says `enable subgroups;`. */
  readonly subgroups: boolean;
  /** The text runs a box of its grid, which `@group(2)` says (parts.ts). */
  readonly inParts?: boolean;
  /** Workgroups of a whole launch with these dims: the grid. */
  workgroups(dims: Dims): readonly [number, number, number];
}

export interface Kernel {
  /** `layerNorm.forward`: used for labels, tables and messages. */
  readonly name: string;
  readonly tensors: readonly TensorSlot[];
  readonly dims: readonly DimSlot[];
  /** Elements of each tensor for these dims. */
  sizes(dims: Dims): Readonly<Record<string, number>>;
  variant(family: AdapterFamily, dims: Dims): Variant;
  /** The formula in nested loops, accumulating in float64. */
  cpu(arrays: Arrays, dims: Dims): void;
  /** Shapes the tests try; always size 1 and a size that no tile divides. */
  readonly cases: readonly Dims[];
  /** Fills the inputs of a case (default: seeded normal values; u32 tensors need their own rule). */
  fill?(arrays: Arrays, dims: Dims, random: () => number): void;
  /** |gpu − cpu| ≤ absolute + relative·|cpu|. */
  readonly tolerance: { readonly absolute: number; readonly relative: number };
  /** Floating-point operations and bytes moved by one dispatch, for the benchmark. */
  cost(dims: Dims): { readonly flops: number; readonly bytes: number };
}

/** The kernel with the text that it has for `dims`, whatever it runs: a check of few rows tries the text of many. */
export const inTextFor = (kernel: Kernel, dims: Dims): Kernel => ({
  ...kernel,
  variant: (family) => kernel.variant(family, dims),
});

/** Bytes of the dims uniform: four a field, rounded up to 16. */
export const dimsBytes = (kernel: Kernel): number => Math.max(16, Math.ceil(kernel.dims.length / 4) * 16);

/** Packs dims by the kernel's table; a missing field is our own error. */
export function packDims(kernel: Kernel, dims: Dims): ArrayBuffer {
  const bytes = new ArrayBuffer(dimsBytes(kernel));
  const view = new DataView(bytes);
  kernel.dims.forEach(({ name, type }, index) => {
    const value = dims[name];
    if (value === undefined) throw new Error(`invariant violated: ${kernel.name} needs the dim ${name}`);
    if (type === 'u32') view.setUint32(index * 4, value, true);
    else view.setFloat32(index * 4, value, true);
  });
  return bytes;
}
