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
import { directText } from './direct.ts';
import { fewRowsSource } from './fewRows.ts';
import { busyShare, gpuInvocations, gpuText, gpuTile, gpuWorkgroups } from './gpu.ts';
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
import { drawElements, drawFromSlices, reference, type Shape, slicesReference } from './reference.ts';
import { ALIGNED_STEPS, type Slices, sliceRows, slicesOf } from './slices.ts';
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

export interface MatmulForm {
  readonly layout: Layout;
  readonly epilogue?: Epilogue;
  readonly tried?: Tried;
  /** Of the adapter; a software adapter has none. */
  readonly unit?: MatrixUnit;
  /** Of the adapter; absent: the usual one. */
  readonly gpuClass?: GpuClass;
  /** The operands lie in storage as halves. */
  readonly halves?: true;
  /** On GPUs: the sums of each slice of K (family/slices.ts). */
  readonly slices?: true;
  /** A (of NT: C) is some columns of a wider matrix. */
  readonly ofWider?: true;
  /** At most MOST_ROWS rows (family/fewRows.ts). */
  readonly fewRows?: true;
}

/** S of a product that is no sum of slices: all its steps. */
function shapeOf(dims: Dims): Shape & Dims<'S'> {
  const { M, N, K, S = K, P } = dims;
  invariant(M !== undefined && N !== undefined && K !== undefined && S !== undefined, 'a product has the dims M, N, K');
  invariant(M >= 1 && N >= 1 && K >= 1, `a product of ${M}×${N}×${K} has nothing to do`);
  return { M, N, K, S, ...(P !== undefined && { P }) };
}

/** 0 for a tensor that the form has not. */
function sizes({ layout, epilogue = {}, slices }: MatmulForm, dims: Dims): Record<ProductTensor, number> {
  const { M, N, K, S, P } = shapeOf(dims);
  const [aRows, aLength] = layout === 'TN' ? [K, M] : [M, K];
  const whole = M * (layout === 'NT' ? (P ?? N) : N);
  const names = productTensors(layout, epilogue, slices).map(({ name }) => name);
  const of = (name: ProductTensor, size: number): number => (names.includes(name) ? size : 0);
  return {
    a: aRows * (layout === 'NT' ? aLength : (P ?? aLength)),
    b: K * N,
    c_MN: slices ? Math.ceil(K / S) * sliceRows(M, epilogue.biasGradient) * N : whole,
    bias_N: of('bias_N', N),
    residual_MN: of('residual_MN', whole),
    pre_MN: of('pre_MN', whole),
    dbias_N: of('dbias_N', N),
  };
}

/** The product as its text sees it: what varies with the micro-batch is a run-time dim. */
export function productOf(layout: Layout, epilogue: Epilogue, dims: Dims, slices?: true): Product {
  const { M, N, K, P } = shapeOf(dims);
  const cut = { ...(slices && { slices }), ...(P !== undefined && { wider: P }) };
  return layout === 'TN'
    ? { layout, epilogue, m: M, n: N, k: 'runtime', ...cut }
    : { layout, epilogue, m: 'runtime', n: N, k: K, ...cut };
}

function sourceOf(
  { layout, epilogue = {}, tried = {}, unit, gpuClass, halves, slices, fewRows }: MatmulForm,
  family: AdapterFamily,
  dims: Dims,
): Source {
  const { M, N, K, P } = shapeOf(dims);
  const product = productOf(layout, epilogue, dims, slices);
  if (fewRows) return fewRowsSource(product, M, family === 'gpu' && gpuClass !== 'cpu');
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
  const plain = gpuTile(product, M, { gpuClass, halves, tried: tried.gpu });
  const tile = unit ? matrixTile(product, M, unit, tried.matrix) : plain;
  const size = [
    layout === 'TN' ? `m${M}` : `k${K}`,
    `n${N}`,
    ...(P === undefined ? [] : [`p${P}`]),
    `${tile.rows}x${tile.columns}x${tile.depth}`,
  ];
  const { ownRows, ownColumns, prefetch, direct, ofHalves } = plain;
  const staged = [...(prefetch ? ['ahead'] : []), ...(direct ? ['direct'] : []), ...(ofHalves ? ['of halves'] : [])];
  const own = unit ? [] : [`${ownRows}x${ownColumns}`, ...staged];
  const units = unit ? ['by', `${unit.m}x${unit.n}x${unit.k}`, unit.component, `${unit.lanes}`] : [];
  return {
    key: [...form, ...size, ...own, ...units].join(' '),
    body: () => (unit ? matrixText(product, tile, unit) : (plain.direct ? directText : gpuText)(product, plain)),
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

/** What decides how a gradient is cut: the adapter, and the bytes that the sums may lie in. */
interface Cutter {
  readonly family: AdapterFamily;
  readonly gpuClass?: GpuClass | undefined;
  readonly roomBytes: number;
}

/** How a weight gradient is cut. */
export function weightGradientSlices(dims: Dims, biasGradient: boolean, cutter: Cutter): WeightGradientSlices {
  const { M, N, K } = shapeOf(dims);
  const floats = sliceRows(M, biasGradient) * N;
  const product = productOf('TN', { biasGradient }, dims);
  return { ...slicesOf(busyShare(product, M, cutter.gpuClass), K, roomFor(floats, cutter)), floats, elements: M * N };
}

/** The same of the gradient of a head's input, which goes over `K` steps of the vocabulary and has no by-product. */
export function inputGradientSlices(dims: Dims, cutter: Cutter): Slices {
  const { M, N, K } = shapeOf(dims);
  const share = busyShare(productOf('NN', {}, dims), M, cutter.gpuClass);
  return slicesOf(share, K, roomFor(M * N, cutter), ALIGNED_STEPS);
}

const roomFor = (floats: number, { family, roomBytes }: Cutter): number =>
  family === 'gpu' ? Math.floor(roomBytes / (4 * floats)) : 0;

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
/** Slices of the gradient of an input begin at multiples of ALIGNED_STEPS. */
const SLICED_ROWS_CASES: readonly Dims[] = [
  { M: 1, N: 1, K: 1, S: 128 },
  { M: 5, N: 37, K: 129, S: 128 },
  { M: 37, N: 132, K: 600, S: 256 },
  { M: 130, N: 36, K: 257, S: 256 },
];
/** Units and splits that divide and that do not, by fours and one by one. */
const FEW_CASES: readonly Shape[] = [
  { M: 1, N: 1, K: 1 },
  { M: 1, N: 132, K: 200 },
  { M: 5, N: 37, K: 257 },
  { M: 3, N: 36, K: 37 },
  { M: 16, N: 37, K: 36 },
  { M: 8, N: 128, K: 128 },
];
/** Of rows that are read by fours, and one by one; a part that is no multiple of four. */
const WIDER: readonly number[] = [0, 4, 3];

function casesOf({ layout, slices, ofWider, fewRows }: MatmulForm): readonly Dims[] {
  if (fewRows) return FEW_CASES;
  const cases = !slices ? CASES : layout === 'TN' ? SLICED_CASES : SLICED_ROWS_CASES;
  if (!ofWider) return cases;
  const part = ({ M = 1, N = 1, K = 1 }: Dims): number => (layout === 'NT' ? N : layout === 'TN' ? M : K);
  return cases.map((dims, index) => ({ ...dims, P: part(dims) + at(WIDER, index % WIDER.length) }));
}

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

/** The same kernel, whose operands have to lie in storage as halves (`inHalves`); itself where it is no product. */
export function ofHalves(kernel: Kernel): Kernel {
  const form = forms.get(kernel);
  return form ? matmul({ ...form, halves: true }) : kernel;
}

/** The same kernel in the tiles of a class of GPUs; itself where it is no product. */
export function inTilesOf(kernel: Kernel, gpuClass: GpuClass): Kernel {
  const form = gpuClass === 'usual' ? undefined : forms.get(kernel);
  return form ? matmul({ ...form, gpuClass }) : kernel;
}

function makeMatmul(form: MatmulForm): Kernel {
  const { layout, epilogue = {}, slices, ofWider, fewRows } = form;
  checkEpilogue(layout, epilogue);
  invariant(
    !slices || (layout !== 'NT' && epilogueNames(epilogue).every((name) => name === 'biasGradient')),
    'slices are of a gradient, and added up later',
  );
  return {
    name: [
      'matmul',
      layout,
      ...epilogueNames(epilogue),
      ...(slices ? ['slices'] : []),
      ...(ofWider ? ['ofWider'] : []),
      ...(fewRows ? ['fewRows'] : []),
    ].join('.'),
    tensors: productTensors(layout, epilogue, slices),
    dims: [u32('M'), u32('N'), u32('K'), ...(slices ? [u32('S')] : []), ...(ofWider ? [u32('P')] : [])],
    sizes: (dims) => sizes(form, dims),
    source: (family, dims) => sourceOf(form, family, dims),
    cpu: (arrays: Arrays<ProductTensor>, dims) =>
      slices
        ? slicesReference(layout, epilogue, arrays, shapeOf(dims))
        : reference(layout, epilogue, arrays, shapeOf(dims)),
    sampled: {
      spread: (dims) => ({ b: [0, 1 / Math.sqrt(shapeOf(dims).K)], pre_MN: [0, 4] }),
      draw: (arrays, dims, random, count) => {
        const shape = shapeOf(dims);
        return slices
          ? drawFromSlices(layout, epilogue, arrays, shape, random, count)
          : drawElements(layout, epilogue, arrays, shape, random, count);
      },
      // A chain of K roundings, each of a sum of size 1.
      slack: (dims) => Math.max(1, Math.sqrt(shapeOf(dims).K) / 32),
    },
    cases: casesOf(form),
    fill,
    tolerance: { absolute: 1e-5, relative: 1e-5 },
    cost: (dims) => {
      const { M, N, K } = shapeOf(dims);
      const elements = Object.values(sizes(form, dims)).reduce((sum, count) => sum + count, 0);
      return { flops: 2 * M * N * K, bytes: 4 * elements };
    },
  };
}
