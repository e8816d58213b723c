/**
 * Muon's update of one matrix, but for its products and its norm, which are the kernels of all others: `muonBegin` takes the
 * momentum, `muonStart` divides by the norm, `muonPolynomial` makes what each Newton–Schulz step multiplies by, `muonApply`
 * moves the values. Formulas: swarm/reference/muon.ts. Rates come with AdamW's `scalars`, so a step's launches stay as they
 * are.
 */
import { at } from '../../swarm/base.ts';
import { PARTIALS } from '../../swarm/memory/memory.ts';
import { LEAST_NORM, ORTHOGONAL_FACTORS } from '../../swarm/reference/muon.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import { ADAMW_SCALARS, adamwScalars } from './adamw.ts';
import applyCode from './muonApply.wgsl?raw';
import plain from './muonApplyPlain.wgsl?raw';
import shadow from './muonApplyShadow.wgsl?raw';
import beginCode from './muonBegin.wgsl?raw';
import polynomialCode from './muonPolynomial.wgsl?raw';
import startCode from './muonStart.wgsl?raw';

/** S rows of L elements, and where they lie in the matrix. */
const SHAPE = ['S', 'L', 'rowStep', 'columnStep'] as const;
type Shape = Dims<(typeof SHAPE)[number]>;
type Cells = 'S' | 'L';

/** A matrix as it lies and one that is turned; the third of three side by side; one of a single row. */
const SHAPES: readonly Shape[] = [
  { S: 1, L: 1, rowStep: 1, columnStep: 1 },
  { S: 7, L: 37, rowStep: 37, columnStep: 1 },
  { S: 12, L: 33, rowStep: 1, columnStep: 12 },
  { S: 20, L: 20, rowStep: 60, columnStep: 1 },
  { S: 1, L: 300, rowStep: 1, columnStep: 1 },
];

const inside = (i: number, { L, rowStep, columnStep }: Shape): number =>
  Math.floor(i / L) * rowStep + (i % L) * columnStep;
/** Elements from a matrix's first to its last. */
const extent = (shape: Shape): number => inside(shape.S * shape.L - 1, shape) + 1;
const scalar = (scalars: Arrays['scalars'], name: (typeof ADAMW_SCALARS)[number]): number =>
  at(scalars as Float32Array, ADAMW_SCALARS.indexOf(name));

const fill = ({ scalars }: Pick<Arrays, 'scalars'>): void =>
  (scalars as Float32Array).set(
    adamwScalars({
      ...{ learningRate: 0.01, clipScale: 0.5, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.1 },
      update: 3,
    }),
  );

export const muonBegin = kernel({
  name: 'muon.begin',
  tensors: [read('grads'), readWrite('m'), readWrite('x'), read('scalars')],
  dims: [...SHAPE.map(u32), u32('gradientOffset'), u32('momentOffset'), f32('momentum')],
  sizes: (dims) => ({
    grads: dims.gradientOffset + extent(dims),
    m: dims.momentOffset + extent(dims),
    x: dims.S * dims.L,
    scalars: ADAMW_SCALARS.length,
  }),
  source: () => laneSource<Cells>({ name: 'muonBegin', code: beginCode, width: 1 }, ({ S, L }) => S * L),
  cpu({ grads, m, x, scalars }, { momentum, gradientOffset, momentOffset, ...shape }) {
    for (let i = 0; i < shape.S * shape.L; i++) {
      const place = inside(i, shape);
      const g = at(grads, gradientOffset + place) * scalar(scalars, 'clipScale');
      const next = momentum * at(m, momentOffset + place) + (1 - momentum) * g;
      m[momentOffset + place] = next;
      x[i] = momentum * next + (1 - momentum) * g;
    }
  },
  cases: SHAPES.map((shape, index) => ({ ...shape, gradientOffset: index, momentOffset: 64 * index, momentum: 0.95 })),
  fill,
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ S, L }) => ({ flops: 8 * S * L, bytes: 4 * 4 * S * L }),
});

export const muonStart = kernel({
  name: 'muon.start',
  tensors: [by(1, read('partials')), readWrite('x')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ partials: PARTIALS, x: n }),
  source: (_family, { n }) => {
    const code = `const PARTIALS = ${PARTIALS}u;\nconst LEAST_NORM = ${LEAST_NORM};\n${startCode}`;
    return laneSource({ name: 'muonStart', code, width: laneWidth(n) }, (dims) => dims.n);
  },
  cpu({ partials, x }, { n }) {
    let squares = 0;
    for (let p = 0; p < PARTIALS; p++) squares += at(partials, p);
    const norm = Math.max(Math.sqrt(squares), LEAST_NORM);
    for (let i = 0; i < n; i++) x[i] = at(x, i) / norm;
  },
  cases: [{ n: 1 }, { n: 259 }, { n: 4096 }],
  fill({ partials }) {
    for (let p = 0; p < partials.length; p++) partials[p] = at(partials, p) ** 2;
  },
  tolerance: { absolute: 1e-7, relative: 2e-6 },
  cost: ({ n }) => ({ flops: (n * PARTIALS) / 4, bytes: 4 * 2 * n }),
});

export const muonPolynomial = kernel({
  name: 'muon.polynomial',
  tensors: [read('m'), readWrite('square')],
  dims: [u32('S')],
  sizes: ({ S }) => ({ m: S * S, square: S * S }),
  source: () => {
    const [a, b, c] = ORTHOGONAL_FACTORS;
    const code = `const FACTOR_A = ${a};\nconst FACTOR_B = ${b};\nconst FACTOR_C = ${c};\n${polynomialCode}`;
    return laneSource<'S'>({ name: 'muonPolynomial', code, width: 1 }, ({ S }) => S * S);
  },
  cpu({ m, square }, { S }) {
    const [a, b, c] = ORTHOGONAL_FACTORS;
    for (let row = 0; row < S; row++)
      for (let column = 0; column < S; column++) {
        const i = row * S + column;
        square[i] = (row === column ? a : 0) + b * at(m, i) + c * at(square, i);
      }
  },
  cases: [{ S: 1 }, { S: 17 }, { S: 64 }],
  tolerance: { absolute: 2e-6, relative: 1e-6 },
  cost: ({ S }) => ({ flops: 4 * S * S, bytes: 4 * 3 * S * S }),
});

type ApplyDims = Shape & Dims<'offset' | 'scale'> & { readonly shadowOffset?: number };

export const muonApply = kernel({
  name: 'muon.apply',
  tensors: [read('x'), readWrite('values'), read('scalars')],
  dims: [...SHAPE.map(u32), u32('offset'), f32('scale')],
  sizes: (dims) => ({
    x: dims.S * dims.L,
    values: dims.offset + extent(dims),
    scalars: ADAMW_SCALARS.length,
  }),
  source: () => laneSource<Cells>({ name: 'muonApply', code: plain + applyCode, width: 1 }, ({ S, L }) => S * L),
  cpu: applyCpu,
  cases: SHAPES.map((shape, index) => ({ ...shape, offset: 64 * index, scale: 1.6 })),
  fill,
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ S, L }) => ({ flops: 4 * S * L, bytes: 4 * 3 * S * L }),
});

/** The same, and the new values once more where a stage computes with halves of them. */
export const muonApplyShadow = kernel({
  ...muonApply,
  name: 'muon.apply.shadow',
  tensors: [...muonApply.tensors, half(readWrite('shadow'))],
  dims: [...muonApply.dims, u32('shadowOffset')],
  sizes: (dims) => ({ ...muonApply.sizes(dims), shadow: dims.shadowOffset + extent(dims) }),
  source: () =>
    laneSource<Cells>({ name: 'muonApply.shadow', code: shadow + applyCode, width: 1 }, ({ S, L }) => S * L),
  cpu: (arrays, dims) => {
    applyCpu(arrays, dims);
    for (let i = 0; i < dims.S * dims.L; i++) {
      const place = inside(i, dims);
      arrays.shadow[dims.shadowOffset + place] = at(arrays.values, dims.offset + place);
    }
  },
  cases: muonApply.cases.map((dims, index) => ({ ...dims, shadowOffset: 128 * index })),
  cost: ({ S, L }) => ({ flops: 4 * S * L, bytes: 4 * 4 * S * L }),
});

function applyCpu({ x, values, scalars }: Arrays<'x' | 'values' | 'scalars'>, { offset, scale, ...shape }: ApplyDims) {
  const rate = scalar(scalars, 'learningRate');
  for (let i = 0; i < shape.S * shape.L; i++) {
    const place = offset + inside(i, shape);
    values[place] = at(values, place) * (1 - rate * scalar(scalars, 'weightDecay')) - rate * scale * at(x, i);
  }
}
