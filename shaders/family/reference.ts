/** The matrix product by its formula, in float64: whole, and single elements of shapes that are too large for that. */
import { at, type Random } from '../../swarm/base.ts';
import type { Arrays, Dims, Drawn } from '../kernel/kernel.ts';
import type { Epilogue, Layout, ProductTensor } from './product.ts';
import { sliceRows } from './slices.ts';

/** P: where A (of NT: C) is some columns of a wider matrix. */
export type Shape = Dims<'M' | 'N' | 'K'> & { readonly P?: number };
type SlicedShape = Shape & Dims<'S'>;

/** gelu_new(x) = ½x(1 + tanh(√(2/π)(x + 0.044715x³))): Hugging Face's name for GPT-2's activation. */
export const gelu = (x: number): number => 0.5 * x * (1 + Math.tanh(geluArgument(x)));

/** d gelu_new / dx. */
export function geluSlope(x: number): number {
  const tanh = Math.tanh(geluArgument(x));
  return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * Math.sqrt(2 / Math.PI) * (1 + 3 * 0.044715 * x * x);
}

const geluArgument = (x: number): number => Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);

type Tensors = Arrays<ProductTensor>;

/** Of element (m, n) in C. */
const placeIn = (layout: Layout, { N, P }: Shape, m: number, n: number): number =>
  m * (layout === 'NT' ? (P ?? N) : N) + n;

/** Element (m, n): what is stored in C, and in pre. */
function elementOf(layout: Layout, epilogue: Epilogue, arrays: Tensors, shape: Shape, m: number, n: number) {
  const { M, N, K, P } = shape;
  const { a, b, c_MN, bias_N, residual_MN, pre_MN } = arrays;
  const [aFirst, aStep] = layout === 'TN' ? [m, P ?? M] : [m * (layout === 'NN' ? (P ?? K) : K), 1];
  const [bFirst, bStep] = layout === 'NT' ? [n * K, 1] : [n, N];
  const i = placeIn(layout, shape, m, n);
  let v = 0;
  for (let k = 0; k < K; k++) v += at(a, aFirst + k * aStep) * at(b, bFirst + k * bStep);
  if (epilogue.bias) v += at(bias_N, n);
  const pre = v;
  if (epilogue.gelu) v = gelu(v);
  if (epilogue.geluBackward) v *= geluSlope(at(pre_MN, i));
  if (epilogue.residual) v += at(residual_MN, i);
  return { c: epilogue.accumulate ? at(c_MN, i) + v : v, pre };
}

function biasGradientOf(
  layout: Layout,
  epilogue: Epilogue,
  { b, dbias_N }: Tensors,
  { N, K }: Shape,
  n: number,
): number {
  let v = epilogue.accumulate ? at(dbias_N, n) : 0;
  for (let k = 0; k < K; k++) v += at(b, layout === 'NT' ? n * K + k : k * N + n);
  return v;
}

export function reference(layout: Layout, epilogue: Epilogue, arrays: Tensors, shape: Shape): void {
  const { M, N } = shape;
  for (let m = 0; m < M; m++) {
    for (let n = 0; n < N; n++) {
      const { c, pre } = elementOf(layout, epilogue, arrays, shape, m, n);
      if (epilogue.gelu) arrays.pre_MN[placeIn(layout, shape, m, n)] = pre;
      arrays.c_MN[placeIn(layout, shape, m, n)] = c;
    }
  }
  for (let n = 0; epilogue.biasGradient && n < N; n++)
    arrays.dbias_N[n] = biasGradientOf(layout, epilogue, arrays, shape, n);
}

/** The product of one slice's steps of A and B; its sums lie one after the other in C, the bias gradient behind each. */
function sliceOf(
  layout: Layout,
  { biasGradient }: Epilogue,
  arrays: Tensors,
  { M, N, K, S, P }: SlicedShape,
  slice: number,
) {
  const [from, end] = [slice * S, Math.min(K, (slice + 1) * S)];
  const first = slice * sliceRows(M, biasGradient) * N;
  const own: Tensors = {
    ...arrays,
    a: layout === 'TN' ? arrays.a.subarray(from * M, end * M) : arrays.a.subarray(from),
    b: arrays.b.subarray(from * N, end * N),
    c_MN: arrays.c_MN.subarray(first, first + M * N),
    dbias_N: arrays.c_MN.subarray(first + M * N, first + M * N + N),
  };
  return { first, own, shape: { M, N, K: end - from, ...(layout === 'NN' && { P: P ?? K }) } };
}

export function slicesReference(layout: Layout, epilogue: Epilogue, arrays: Tensors, dims: SlicedShape): void {
  for (let slice = 0; slice * dims.S < dims.K; slice++) {
    const { own, shape } = sliceOf(layout, epilogue, arrays, dims, slice);
    reference(layout, epilogue, own, shape);
  }
}

/** Some elements of every output; of sums down the columns an eighth as many. */
export function drawElements(
  layout: Layout,
  epilogue: Epilogue,
  arrays: Tensors,
  shape: Shape,
  random: Random,
  count: number,
): Drawn[] {
  const { M, N } = shape;
  const below = (end: number): number => Math.floor(random() * end);
  const found: Drawn[] = [];
  for (let drawn = 0; drawn < count; drawn++) {
    const [m, n] = [below(M), below(N)];
    const { c, pre } = elementOf(layout, epilogue, arrays, shape, m, n);
    const index = placeIn(layout, shape, m, n);
    found.push({ tensor: 'c_MN', index, value: c });
    if (epilogue.gelu) found.push({ tensor: 'pre_MN', index, value: pre });
    if (!epilogue.biasGradient || drawn % 8 > 0) continue;
    found.push({ tensor: 'dbias_N', index: n, value: biasGradientOf(layout, epilogue, arrays, shape, n) });
  }
  return found;
}

/** As many of each slice as make `count` of all. */
export function drawFromSlices(
  layout: Layout,
  epilogue: Epilogue,
  arrays: Tensors,
  dims: SlicedShape,
  random: Random,
  count: number,
): Drawn[] {
  const slices = Math.ceil(dims.K / dims.S);
  return Array.from({ length: slices }).flatMap((_, slice) => {
    const { first, own, shape } = sliceOf(layout, epilogue, arrays, dims, slice);
    const behind = { c_MN: first, dbias_N: first + dims.M * dims.N };
    return drawElements(layout, epilogue, own, shape, random, Math.ceil(count / slices)).map(
      ({ tensor, index, value }) => ({
        tensor: 'c_MN' as const,
        index: (tensor === 'dbias_N' ? behind.dbias_N : behind.c_MN) + index,
        value,
      }),
    );
  });
}
