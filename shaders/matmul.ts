/**
 * The matrix product C[M,N] = op(A)·op(B) with its epilogues: bias, gelu and its gradient, residual, accumulation. The
 * one idea: a text is generated for what its family makes of a shape, and the rows of a micro-batch are a run-time dim, so
 * a model has a handful of pipelines whatever the plan does with its micro-batches.
 *
 * Letters and layouts: family/product.ts. The text: family/software.ts, family/gpu.ts and, where a GPU has matrix units,
 * family/subgroupMatrix.ts.
 */
import { invariant, normal, type Random } from '../swarm/base.ts';
import { gpuText, gpuTile, gpuWorkgroups } from './family/gpu.ts';
import type { MatrixUnit } from './family/matrixUnit.ts';
import {
  checkEpilogue,
  type Epilogue,
  epilogueNames,
  type Layout,
  type Product,
  productTensors,
} from './family/product.ts';
import { type Slices, sliceRows, slicesOf } from './family/slices.ts';
import { softwareKey, softwareText, softwareTile, softwareWorkgroups } from './family/software.ts';
import { matrixText, matrixTile } from './family/subgroupMatrix.ts';
import type { GpuShape, MatrixRow, SoftwareRow } from './family/tiles.ts';
import type { AdapterFamily, Arrays, Dims, Kernel, Variant } from './kernel.ts';
import { u32 } from './slots.ts';

/** What the tuning tries in place of the table's choice. */
export interface Tried {
  readonly software?: Pick<SoftwareRow, 'depth'>;
  readonly gpu?: GpuShape;
  readonly matrix?: Pick<MatrixRow, 'side' | 'depthBytes'>;
}

export interface MatmulForm {
  readonly layout: Layout;
  readonly epilogue?: Epilogue;
  readonly tried?: Tried;
  /** Of the adapter; a software adapter has none. */
  readonly unit?: MatrixUnit;
  /** Of a weight gradient, on GPUs: the sums of each slice of K (family/slices.ts). */
  readonly slices?: true;
}

/** gelu_new(x) = ½x(1 + tanh(√(2/π)(x + 0.044715x³))): Hugging Face's name for GPT-2's activation. */
export const gelu = (x: number): number => 0.5 * x * (1 + Math.tanh(geluArgument(x)));

/** d gelu_new / dx. */
export function geluSlope(x: number): number {
  const tanh = Math.tanh(geluArgument(x));
  return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * Math.sqrt(2 / Math.PI) * (1 + 3 * 0.044715 * x * x);
}

const geluArgument = (x: number): number => Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);

type Shape = Readonly<Record<'M' | 'N' | 'K', number>>;

function shapeOf(dims: Dims): Shape {
  const { M, N, K } = dims;
  invariant(M !== undefined && N !== undefined && K !== undefined, 'a product has the dims M, N, K');
  invariant(M >= 1 && N >= 1 && K >= 1, `a product of ${M}×${N}×${K} has nothing to do`);
  return { M, N, K };
}

function sizes({ layout, epilogue = {}, slices }: MatmulForm, dims: Dims): Record<string, number> {
  const { M, N, K } = shapeOf(dims);
  const all: Record<string, number> = {
    a: M * K,
    b: K * N,
    c: slices ? Math.ceil(K / dims.S) * sliceRows(M, epilogue.biasGradient) * N : M * N,
    bias: N,
    residual: M * N,
    pre: M * N,
    biasGradient: N,
  };
  return Object.fromEntries(productTensors(layout, epilogue, slices).map(({ name }) => [name, all[name] ?? 0]));
}

/** The product as its text sees it: what varies with the micro-batch is a run-time dim. */
export function productOf(layout: Layout, epilogue: Epilogue, dims: Dims, slices?: true): Product {
  const { M, N, K } = shapeOf(dims);
  return layout === 'TN'
    ? { layout, epilogue, m: M, n: N, k: 'runtime', ...(slices && { slices }) }
    : { layout, epilogue, m: 'runtime', n: N, k: K };
}

function variantOf(
  { layout, epilogue = {}, tried = {}, unit, slices }: MatmulForm,
  family: AdapterFamily,
  dims: Dims,
): Variant {
  const { M, N, K } = shapeOf(dims);
  const product = productOf(layout, epilogue, dims, slices);
  const form = ['matmul', family, layout, ...epilogueNames(epilogue), ...(slices ? ['slices'] : [])];
  if (family === 'software') {
    invariant(!slices, 'a software adapter cuts no product');
    const tile = softwareTile(product, K, tried.software);
    return {
      key: [...form, softwareKey(product, tile)].join(' '),
      code: softwareText(product, tile),
      entryPoint: 'main',
      subgroups: true,
      workgroups: (actual) => softwareWorkgroups(tile, shapeOf(actual).M, N),
    };
  }
  const plain = gpuTile(product, M, tried.gpu);
  const tile = unit ? matrixTile(product, M, unit, tried.matrix) : plain;
  const size = [layout === 'TN' ? `m${M}` : `k${K}`, `n${N}`, `${tile.rows}x${tile.columns}x${tile.depth}`];
  const own = unit ? [] : [`${plain.ownRows}x${plain.ownColumns}`];
  const units = unit ? ['by', `${unit.m}x${unit.n}x${unit.k}`, unit.component, `${unit.lanes}`] : [];
  return {
    key: [...form, ...size, ...own, ...units].join(' '),
    code: unit ? matrixText(product, tile, unit) : gpuText(product, plain),
    entryPoint: 'main',
    subgroups: unit !== undefined,
    workgroups: (actual) => {
      const [x, y] = gpuWorkgroups(tile, shapeOf(actual).M, N);
      return [x, y, slices ? Math.ceil(actual.K / actual.S) : 1];
    },
  };
}

interface WeightGradientSlices extends Slices {
  /** Of one slice. */
  readonly floats: number;
}

/** How a weight gradient is cut on an adapter of this family, where its sums have `roomBytes` to lie in. */
export function weightGradientSlices(
  family: AdapterFamily,
  dims: Dims,
  { biasGradient, roomBytes }: { readonly biasGradient: boolean; readonly roomBytes: number },
): WeightGradientSlices {
  const { M, N, K } = shapeOf(dims);
  const floats = sliceRows(M, biasGradient) * N;
  const epilogue = { biasGradient };
  const [x, y] = gpuWorkgroups(gpuTile(productOf('TN', epilogue, dims), M), M, N);
  const room = family === 'gpu' ? Math.floor(roomBytes / (4 * floats)) : 0;
  return { ...slicesOf(x * y, K, room), floats };
}

function reference(layout: Layout, epilogue: Epilogue, arrays: Arrays, dims: Dims): void {
  const { M, N, K } = shapeOf(dims);
  const { a, b, c, bias, residual, pre, biasGradient } = arrays;
  invariant(a && b && c, 'a product has a, b and c');
  const aAt = (m: number, k: number): number => (layout === 'TN' ? a[k * M + m] : a[m * K + k]) ?? Number.NaN;
  const bAt = (k: number, n: number): number => (layout === 'NT' ? b[n * K + k] : b[k * N + n]) ?? Number.NaN;
  for (let m = 0; m < M; m++) {
    for (let n = 0; n < N; n++) {
      const i = m * N + n;
      let v = 0;
      for (let k = 0; k < K; k++) v += aAt(m, k) * bAt(k, n);
      if (epilogue.bias) v += bias?.[n] ?? Number.NaN;
      if (epilogue.gelu) {
        if (pre) pre[i] = v;
        v = gelu(v);
      }
      if (epilogue.geluBackward) v *= geluSlope(pre?.[i] ?? Number.NaN);
      if (epilogue.residual) v += residual?.[i] ?? Number.NaN;
      c[i] = epilogue.accumulate ? (c[i] ?? Number.NaN) + v : v;
    }
  }
  for (let n = 0; epilogue.biasGradient && biasGradient && n < N; n++) {
    let v = epilogue.accumulate ? (biasGradient[n] ?? Number.NaN) : 0;
    for (let k = 0; k < K; k++) v += bAt(k, n);
    biasGradient[n] = v;
  }
}

/** Each slice is the product of its own rows of A and B, and the bias gradient lies behind it. */
function slicesReference({ epilogue = {} }: MatmulForm, arrays: Arrays, dims: Dims): void {
  const { M, N, K } = shapeOf(dims);
  const { a, b, c } = arrays;
  for (let slice = 0, from = 0; from < K; slice++, from += dims.S) {
    const end = Math.min(K, from + dims.S);
    const first = slice * sliceRows(M, epilogue.biasGradient) * N;
    const sums = c.subarray(first, first + M * N);
    const biasGradient = c.subarray(first + M * N, first + M * N + N);
    const [rowsOfA, rowsOfB] = [a.subarray(from * M, end * M), b.subarray(from * N, end * N)];
    reference('TN', epilogue, { a: rowsOfA, b: rowsOfB, c: sums, biasGradient }, { M, N, K: end - from });
  }
}

/** Inputs whose sums are of size 1 whatever K is, and pre-activations from both tails of gelu. */
function fill(arrays: Arrays, dims: Dims, random: Random): void {
  const { K } = shapeOf(dims);
  const { b, pre } = arrays;
  for (let i = 0; b && i < b.length; i++) b[i] = normal(random) / Math.sqrt(K);
  for (let i = 0; pre && i < pre.length; i++) pre[i] = 4 * normal(random);
}

/** Every remainder: of four (vec4 or scalar rows), of a panel (64 and 128 steps, 32 columns), of a tile (32 and 64). */
const CASES: readonly Shape[] = [
  { M: 1, N: 1, K: 1 },
  { M: 37, N: 132, K: 200 },
  { M: 5, N: 37, K: 257 },
  { M: 9, N: 36, K: 37 },
  { M: 130, N: 37, K: 36 },
  { M: 64, N: 128, K: 128 },
  { M: 21, N: 64, K: 64 },
  { M: 513, N: 516, K: 20 },
];
/** Of the largest tile, for the product's own tests: an admission has no time for its reference. */
export const LARGE_CASE: Shape = { M: 1025, N: 1028, K: 20 };
/** One slice, slices of one step, a last slice that is shorter, tiles and steps that divide and that do not. */
const SLICED_CASES: readonly Dims[] = [
  { M: 1, N: 1, K: 1, S: 1 },
  { M: 5, N: 37, K: 3, S: 1 },
  { M: 37, N: 132, K: 200, S: 67 },
  { M: 64, N: 64, K: 128, S: 64 },
  { M: 130, N: 36, K: 257, S: 256 },
];

const made = new Map<string, Kernel>();
const forms = new WeakMap<Kernel, MatmulForm>();

/** One object for each form: what is kept of a kernel is kept by it. */
export function matmul(form: MatmulForm): Kernel {
  const key = JSON.stringify(form);
  const kernel = made.get(key) ?? makeMatmul(form);
  made.set(key, kernel);
  forms.set(kernel, form);
  return kernel;
}

/** The same kernel on an adapter's matrix unit; itself where it is no product. */
export function onMatrixUnit(kernel: Kernel, unit: MatrixUnit): Kernel {
  const form = forms.get(kernel);
  return form ? matmul({ ...form, unit }) : kernel;
}

function makeMatmul(form: MatmulForm): Kernel {
  const { layout, epilogue = {}, slices } = form;
  checkEpilogue(layout, epilogue);
  invariant(
    !slices || (layout === 'TN' && !epilogue.accumulate),
    'slices are of a weight gradient, and added up later',
  );
  return {
    name: ['matmul', layout, ...epilogueNames(epilogue), ...(slices ? ['slices'] : [])].join('.'),
    tensors: productTensors(layout, epilogue, slices),
    dims: [u32('M'), u32('N'), u32('K'), ...(slices ? [u32('S')] : [])],
    sizes: (dims) => sizes(form, dims),
    variant: (family, dims) => variantOf(form, family, dims),
    cpu: (arrays, dims) => (slices ? slicesReference(form, arrays, dims) : reference(layout, epilogue, arrays, dims)),
    cases: slices ? SLICED_CASES : CASES.map((shape) => ({ ...shape })),
    fill,
    tolerance: { absolute: 1e-5, relative: 1e-5 },
    cost: (dims) => {
      const { M, N, K } = shapeOf(dims);
      const elements = Object.values(sizes(form, dims)).reduce((sum, count) => sum + count, 0);
      return { flops: 2 * M * N * K, bytes: 4 * elements };
    },
  };
}
