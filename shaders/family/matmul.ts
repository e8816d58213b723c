/**
 * The matrix product C[M,N] = op(A)·op(B) with its epilogues: bias, gelu and its gradient, residual, accumulation. A
 * text is generated for what its family makes of a shape, and the rows of a micro-batch are a run-time dim, so a model
 * has a handful of pipelines whatever the plan does with its micro-batches.
 *
 * Letters and layouts: family/product.ts. The text: family/software.ts, family/gpu.ts and, where a GPU has matrix units,
 * family/subgroupMatrix.ts.
 */
import { at, invariant, normal, type Random } from '../../swarm/base.ts';
import type { AdapterFamily, Arrays, Dims, Kernel, Source } from '../kernel/kernel.ts';
import { u32 } from '../kernel/slots.ts';
import { type GpuClass, SOFTWARE_LANES } from './adapterFamily.ts';
import { gpuInvocations, gpuText, gpuTile, gpuWorkgroups } from './gpu.ts';
import type { MatrixUnit } from './matrixUnit.ts';
import {
  checkEpilogue,
  type Epilogue,
  epilogueNames,
  type Layout,
  type Product,
  type ProductTensor,
  productTensors,
} from './product.ts';
import { type Slices, sliceRows, slicesOf } from './slices.ts';
import { softwareKey, softwareText, softwareTile, softwareWidths, softwareWorkgroups } from './software.ts';
import { matrixWidths } from './strips.ts';
import { matrixDirectives, matrixInvocations, matrixText, matrixTile } from './subgroupMatrix.ts';
import type { GpuShape, MatrixRule, SoftwareRule } from './tiles.ts';
import { tensorWidths, widths } from './widths.ts';

/** What the tuning tries in place of the table's choice. */
export interface Tried {
  readonly software?: Pick<SoftwareRule, 'depth'>;
  readonly gpu?: GpuShape;
  readonly matrix?: Pick<MatrixRule, 'side' | 'depthBytes'>;
}

interface MatmulForm {
  readonly layout: Layout;
  readonly epilogue?: Epilogue;
  readonly tried?: Tried;
  /** Of the adapter; a software adapter has none. */
  readonly unit?: MatrixUnit;
  /** Of the adapter; absent: the usual one. */
  readonly gpuClass?: GpuClass;
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

type Shape = Dims<'M' | 'N' | 'K'>;

/** S of a product that is no sum of slices: all its steps. */
function shapeOf(dims: Dims): Dims<'M' | 'N' | 'K' | 'S'> {
  const { M, N, K, S = K } = dims;
  invariant(M !== undefined && N !== undefined && K !== undefined && S !== undefined, 'a product has the dims M, N, K');
  invariant(M >= 1 && N >= 1 && K >= 1, `a product of ${M}×${N}×${K} has nothing to do`);
  return { M, N, K, S };
}

/** 0 for a tensor that the form has not. */
function sizes({ layout, epilogue = {}, slices }: MatmulForm, dims: Dims): Record<ProductTensor, number> {
  const { M, N, K, S } = shapeOf(dims);
  const names = productTensors(layout, epilogue, slices).map(({ name }) => name);
  const of = (name: ProductTensor, size: number): number => (names.includes(name) ? size : 0);
  return {
    a: M * K,
    b: K * N,
    c_MN: slices ? Math.ceil(K / S) * sliceRows(M, epilogue.biasGradient) * N : M * N,
    bias_N: of('bias_N', N),
    residual_MN: of('residual_MN', M * N),
    pre_MN: of('pre_MN', M * N),
    dbias_N: of('dbias_N', N),
  };
}

/** The product as its text sees it: what varies with the micro-batch is a run-time dim. */
export function productOf(layout: Layout, epilogue: Epilogue, dims: Dims, slices?: true): Product {
  const { M, N, K } = shapeOf(dims);
  return layout === 'TN'
    ? { layout, epilogue, m: M, n: N, k: 'runtime', ...(slices && { slices }) }
    : { layout, epilogue, m: 'runtime', n: N, k: K };
}

function sourceOf(
  { layout, epilogue = {}, tried = {}, unit, gpuClass, slices }: MatmulForm,
  family: AdapterFamily,
  dims: Dims,
): Source {
  const { M, N, K } = shapeOf(dims);
  const product = productOf(layout, epilogue, dims, slices);
  const form = ['matmul', family, layout, ...epilogueNames(epilogue), ...(slices ? ['slices'] : [])];
  if (family === 'software') {
    invariant(!slices, 'a software adapter cuts no product');
    const tile = softwareTile(product, K, tried.software);
    return {
      key: [...form, softwareKey(product, tile)].join(' '),
      body: () => softwareText(product, tile),
      width: tensorWidths(softwareWidths(product)),
      workgroupSize: SOFTWARE_LANES,
      directives: ['enable subgroups;'],
      workgroups: (actual) => softwareWorkgroups(tile, shapeOf(actual).M, N),
    };
  }
  const plain = gpuTile(product, M, gpuClass, tried.gpu);
  const tile = unit ? matrixTile(product, M, unit, tried.matrix) : plain;
  const size = [layout === 'TN' ? `m${M}` : `k${K}`, `n${N}`, `${tile.rows}x${tile.columns}x${tile.depth}`];
  const own = unit ? [] : [`${plain.ownRows}x${plain.ownColumns}`, ...(plain.prefetch ? ['ahead'] : [])];
  const units = unit ? ['by', `${unit.m}x${unit.n}x${unit.k}`, unit.component, `${unit.lanes}`] : [];
  return {
    key: [...form, ...size, ...own, ...units].join(' '),
    body: () => (unit ? matrixText(product, tile, unit) : gpuText(product, plain)),
    width: tensorWidths((unit ? matrixWidths : widths)(product)),
    workgroupSize: unit ? matrixInvocations(tile, unit) : gpuInvocations(plain),
    ...(unit ? { directives: matrixDirectives(unit), takesSubgroup: true } : {}),
    workgroups: (actual) => {
      const shape = shapeOf(actual);
      const [x, y] = gpuWorkgroups(tile, shape.M, N);
      return [x, y, Math.ceil(shape.K / shape.S)];
    },
  };
}

interface WeightGradientSlices extends Slices {
  /** Of one slice, and those of them that are the product's own. */
  readonly floats: number;
  readonly elements: number;
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
  return { ...slicesOf(x * y, K, room), floats, elements: M * N };
}

function reference(layout: Layout, epilogue: Epilogue, arrays: Arrays<ProductTensor>, { M, N, K }: Shape): void {
  const { a, b, c_MN, bias_N, residual_MN, pre_MN, dbias_N } = arrays;
  const aAt = (m: number, k: number): number => at(a, layout === 'TN' ? k * M + m : m * K + k);
  const bAt = (k: number, n: number): number => at(b, layout === 'NT' ? n * K + k : k * N + n);
  for (let m = 0; m < M; m++) {
    for (let n = 0; n < N; n++) {
      const i = m * N + n;
      let v = 0;
      for (let k = 0; k < K; k++) v += aAt(m, k) * bAt(k, n);
      if (epilogue.bias) v += at(bias_N, n);
      if (epilogue.gelu) {
        pre_MN[i] = v;
        v = gelu(v);
      }
      if (epilogue.geluBackward) v *= geluSlope(at(pre_MN, i));
      if (epilogue.residual) v += at(residual_MN, i);
      c_MN[i] = epilogue.accumulate ? at(c_MN, i) + v : v;
    }
  }
  for (let n = 0; epilogue.biasGradient && n < N; n++) {
    let v = epilogue.accumulate ? at(dbias_N, n) : 0;
    for (let k = 0; k < K; k++) v += bAt(k, n);
    dbias_N[n] = v;
  }
}

/** Each slice is the product of its own rows of A and B, and the bias gradient lies behind it. */
function slicesReference({ epilogue = {} }: MatmulForm, arrays: Arrays<ProductTensor>, dims: Dims): void {
  const { M, N, K, S } = shapeOf(dims);
  const { a, b, c_MN } = arrays;
  for (let slice = 0, from = 0; from < K; slice++, from += S) {
    const end = Math.min(K, from + S);
    const first = slice * sliceRows(M, epilogue.biasGradient) * N;
    const slicesOfC = {
      c_MN: c_MN.subarray(first, first + M * N),
      dbias_N: c_MN.subarray(first + M * N, first + M * N + N),
    };
    const rows = { a: a.subarray(from * M, end * M), b: b.subarray(from * N, end * N) };
    reference('TN', epilogue, { ...arrays, ...rows, ...slicesOfC }, { M, N, K: end - from });
  }
}

/** Inputs whose sums are of size 1 whatever K is, and pre-activations from both tails of gelu. */
function fill({ b, pre_MN }: Partial<Arrays<ProductTensor>>, dims: Dims, random: Random): void {
  const { K } = shapeOf(dims);
  for (let i = 0; b && i < b.length; i++) b[i] = normal(random) / Math.sqrt(K);
  for (let i = 0; pre_MN && i < pre_MN.length; i++) pre_MN[i] = 4 * normal(random);
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
/** Of the tiles that only GPUs with many registers get: with and without tails. */
export const WIDE_CASES: readonly Shape[] = [
  { M: 1025, N: 1924, K: 20 },
  { M: 1024, N: 2048, K: 16 },
];
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

/** The same kernel in the tiles of a class of GPUs; itself where it is no product. */
export function inTilesOf(kernel: Kernel, gpuClass: GpuClass): Kernel {
  const form = gpuClass === 'usual' ? undefined : forms.get(kernel);
  return form ? matmul({ ...form, gpuClass }) : kernel;
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
    source: (family, dims) => sourceOf(form, family, dims),
    cpu: (arrays: Arrays<ProductTensor>, dims) =>
      slices ? slicesReference(form, arrays, dims) : reference(layout, epilogue, arrays, shapeOf(dims)),
    cases: slices ? SLICED_CASES : CASES,
    fill,
    tolerance: { absolute: 1e-5, relative: 1e-5 },
    cost: (dims) => {
      const { M, N, K } = shapeOf(dims);
      const elements = Object.values(sizes(form, dims)).reduce((sum, count) => sum + count, 0);
      return { flops: 2 * M * N * K, bytes: 4 * elements };
    },
  };
}
