/**
 * Rows of the CPU reference that are no products, forward and backward: the formulas to read. They write into what they are
 * given; the gradient of x is dx, and every backward adds to what stands there, since activations and tied tensors are read twice.
 *
 * Letters: N rows, C the model's width, V vocabulary, I the inner width of a gated row (2I: its gate and up side by side), E heads
 * of queries, keys and values in a row of qkv, D their width.
 */
import { at } from '../base.ts';
import { NO_TARGET } from '../run/data.ts';
import { add, type Matrix } from './products.ts';

/** A row's input and output, or their gradients. */
interface Passage {
  readonly x: Matrix;
  readonly y: Matrix;
}

/** y = (x − mean)/√(variance + ε)·weight + bias, row by row. */
export function layerNorm({ x, y }: Passage, weight_C: Matrix, bias_C: Matrix, epsilon: number): void {
  const C = weight_C.length;
  for (let row = 0; row < x.length; row += C) {
    const [mean, inverse] = moments(x, row, C, epsilon);
    for (let c = 0; c < C; c++)
      y[row + c] = ((x[row + c] ?? 0) - mean) * inverse * (weight_C[c] ?? 0) + (bias_C[c] ?? 0);
  }
}

/** Mean and 1/√(variance + ε) of the row that starts at element `row`. */
function moments(x_NC: Matrix, row: number, C: number, epsilon: number): readonly [mean: number, inverse: number] {
  let sum = 0;
  for (let c = 0; c < C; c++) sum += x_NC[row + c] ?? 0;
  const mean = sum / C;
  let squares = 0;
  for (let c = 0; c < C; c++) squares += ((x_NC[row + c] ?? 0) - mean) ** 2;
  return [mean, 1 / Math.sqrt(squares / C + epsilon)];
}

/** With n = (x − mean)·inverse and g = dy·weight: dx = inverse·(g − mean(g) − n·mean(g·n)). */
export function layerNormBackward(
  x_NC: Matrix,
  weight_C: Matrix,
  epsilon: number,
  { x: dx, y: dy, weight: dweight_C, bias: dbias_C }: Passage & { readonly weight: Matrix; readonly bias: Matrix },
): void {
  const C = weight_C.length;
  for (let row = 0; row < x_NC.length; row += C) {
    const [mean, inverse] = moments(x_NC, row, C, epsilon);
    let sumG = 0;
    let sumGn = 0;
    for (let c = 0; c < C; c++) {
      const n = ((x_NC[row + c] ?? 0) - mean) * inverse;
      const slope = dy[row + c] ?? 0;
      const g = slope * (weight_C[c] ?? 0);
      sumG += g;
      sumGn += g * n;
      add(dweight_C, c, slope * n);
      add(dbias_C, c, slope);
    }
    const [meanG, meanGn] = [sumG / C, sumGn / C];
    for (let c = 0; c < C; c++) {
      const n = ((x_NC[row + c] ?? 0) - mean) * inverse;
      add(dx, row + c, inverse * ((dy[row + c] ?? 0) * (weight_C[c] ?? 0) - meanG - n * meanGn));
    }
  }
}

interface RmsNorm {
  readonly epsilon: number;
  readonly offset: number;
}

/** y = x·r·(offset + weight) with r = 1/√(mean x² + ε), row by row. */
export function rmsNorm({ x, y }: Passage, weight_C: Matrix, norm: RmsNorm): void {
  const C = weight_C.length;
  for (let row = 0; row < x.length; row += C) rmsNormRow({ x, y }, row, weight_C, norm);
}

/** Of the row that starts at element `row`. */
function rmsNormRow({ x, y }: Passage, row: number, weight_C: Matrix, { epsilon, offset }: RmsNorm): void {
  const C = weight_C.length;
  const r = inverseRms(x, row, C, epsilon);
  for (let c = 0; c < C; c++) y[row + c] = (x[row + c] ?? 0) * r * (offset + (weight_C[c] ?? 0));
}

/** r of the row that starts at element `row`. */
function inverseRms(x_NC: Matrix, row: number, C: number, epsilon: number): number {
  let squares = 0;
  for (let c = 0; c < C; c++) squares += (x_NC[row + c] ?? 0) ** 2;
  return 1 / Math.sqrt(squares / C + epsilon);
}

type WeightSlopes = Passage & { readonly weight: Matrix };

export function rmsNormBackward(x_NC: Matrix, weight_C: Matrix, norm: RmsNorm, slopes: WeightSlopes): void {
  for (let row = 0; row < x_NC.length; row += weight_C.length)
    rmsNormRowBackward(x_NC, row, { ...norm, weight_C }, slopes);
}

/** With n = x·r and g = dy·(offset + weight): dx = r·(g − n·mean(g·n)), dweight = Σ dy·n. */
function rmsNormRowBackward(
  x_NC: Matrix,
  row: number,
  { weight_C, epsilon, offset }: RmsNorm & { readonly weight_C: Matrix },
  { x: dx, y: dy, weight: dweight_C }: WeightSlopes,
): void {
  const C = weight_C.length;
  const r = inverseRms(x_NC, row, C, epsilon);
  let mean = 0;
  for (let c = 0; c < C; c++) {
    const [n, slope] = [(x_NC[row + c] ?? 0) * r, dy[row + c] ?? 0];
    mean += (slope * (offset + (weight_C[c] ?? 0)) * n) / C;
    add(dweight_C, c, slope * n);
  }
  for (let c = 0; c < C; c++) {
    const g = (dy[row + c] ?? 0) * (offset + (weight_C[c] ?? 0));
    add(dx, row + c, r * (g - (x_NC[row + c] ?? 0) * r * mean));
  }
}

interface HeadNorm extends RmsNorm {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
}

/** For each head in a matrix of qkv: where it starts, and whether it is of queries (0), keys (1) or values. */
function* headsIn(length: number, { heads, keyValueHeads, headWidth }: HeadNorm) {
  const E = heads + 2 * keyValueHeads;
  for (let head = 0; head * headWidth < length; head++) {
    const e = head % E;
    yield { row: head * headWidth, kind: e < heads ? 0 : e < heads + keyValueHeads ? 1 : 2 };
  }
}

/** An RMS norm over each head, of queries with the first weight, of keys with the second. */
export function headNorm({ x, y }: Passage, weights_D: readonly Matrix[], norm: HeadNorm): void {
  for (const { row, kind } of headsIn(x.length, norm)) {
    const weight_D = weights_D[kind];
    if (weight_D) rmsNormRow({ x, y }, row, weight_D, norm);
    else for (let d = row; d < row + norm.headWidth; d++) y[d] = x[d] ?? 0;
  }
}

export function headNormBackward(
  x_NED: Matrix,
  weights_D: readonly Matrix[],
  norm: HeadNorm,
  { x: dx, y: dy, weights: dweights_D }: Passage & { readonly weights: readonly Matrix[] },
): void {
  const { epsilon, offset, headWidth } = norm;
  for (const { row, kind } of headsIn(x_NED.length, norm)) {
    const [weight_C, weight] = [weights_D[kind], dweights_D[kind]];
    if (weight_C && weight) rmsNormRowBackward(x_NED, row, { weight_C, epsilon, offset }, { x: dx, y: dy, weight });
    else for (let d = row; d < row + headWidth; d++) add(dx, d, dy[d] ?? 0);
  }
}

interface Rotary {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
  /** Radians a position of each pair. */
  readonly turns: { readonly frequencies: readonly number[] };
}

/** Turns queries and keys in place by `sign` times the angle of their row's position; −1 turns their gradient back. */
export function rotate(
  qkv_NED: Matrix,
  { heads, keyValueHeads, headWidth, turns: { frequencies } }: Rotary,
  position: (row: number) => number,
  sign: 1 | -1,
): void {
  const stride = (heads + 2 * keyValueHeads) * headWidth;
  const half = headWidth / 2;
  for (let row = 0; row < qkv_NED.length / stride; row++)
    for (let head = 0; head < heads + keyValueHeads; head++)
      for (let d = 0; d < half; d++) {
        const angle = sign * position(row) * at(frequencies, d);
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        const i = row * stride + head * headWidth + d;
        const [first, second] = [qkv_NED[i] ?? 0, qkv_NED[i + half] ?? 0];
        qkv_NED[i] = first * cos - second * sin;
        qkv_NED[i + half] = second * cos + first * sin;
      }
}

const GELU_SCALE = Math.sqrt(2 / Math.PI);
const GELU_CUBE = 0.044715;

type ValueAndSlope = readonly [value: number, slope: number];

/** gelu_new: ½x(1 + tanh(√(2/π)(x + 0.044715x³))), and its derivative. */
function geluOf(x: number): ValueAndSlope {
  // tanh(z) = 1 − 2/(exp(2z) + 1), which is faster than Math.tanh.
  const t = 1 - 2 / (Math.exp(2 * GELU_SCALE * (x + GELU_CUBE * x * x * x)) + 1);
  return [0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x)];
}

/** silu(x) = x·s with s = 1/(1 + exp(−x)), and its derivative. */
function siluOf(x: number): ValueAndSlope {
  const s = 1 / (1 + Math.exp(-x));
  return [x * s, s + x * s * (1 - s)];
}

/** In place. `slope` gets the derivative, for the backward. */
export function gelu(y: Matrix, slope: Matrix): void {
  for (let i = 0; i < y.length; i++) [y[i], slope[i]] = geluOf(y[i] ?? 0);
}

/** The gradient of what went in, in the place of the gradient of what came out. */
export function geluBackward(dy: Matrix, slope: Matrix): void {
  for (let i = 0; i < dy.length; i++) dy[i] = (dy[i] ?? 0) * (slope[i] ?? 0);
}

const ACTIVATIONS = { silu: siluOf, gelu: geluOf };
type Activation = keyof typeof ACTIVATIONS;

/** Where in x the gate of y's element i stands; its up stands I behind it. */
const gatePlace = (i: number, I: number): number => Math.floor(i / I) * 2 * I + (i % I);

/** y = act(gate)·up. */
export function gated({ x: x_N2I, y: y_NI }: Passage, I: number, activation: Activation): void {
  for (let i = 0; i < y_NI.length; i++) {
    const place = gatePlace(i, I);
    y_NI[i] = ACTIVATIONS[activation](x_N2I[place] ?? 0)[0] * (x_N2I[place + I] ?? 0);
  }
}

/** dgate = dy·up·act′(gate), dup = dy·act(gate). */
export function gatedBackward(
  x_N2I: Matrix,
  { x: dx_N2I, y: dy_NI }: Passage,
  I: number,
  activation: Activation,
): void {
  for (let i = 0; i < dy_NI.length; i++) {
    const [place, dy] = [gatePlace(i, I), dy_NI[i] ?? 0];
    const [value, slope] = ACTIVATIONS[activation](x_N2I[place] ?? 0);
    add(dx_N2I, place, dy * (x_N2I[place + I] ?? 0) * slope);
    add(dx_N2I, place + I, dy * value);
  }
}

/**
 * Σ over rows with a target of scale·−log softmax(logits)[target], and its gradient. Both are made from the others' share, which has
 * digits where 1 − p has none.
 */
export function crossEntropy(
  { x: logits_NV, dx: dlogits_NV }: { readonly x: Matrix; readonly dx: Matrix },
  targets_N: ArrayLike<number>,
  scale: number,
  losses_N: Matrix,
): void {
  const V = logits_NV.length / targets_N.length;
  losses_N.fill(0);
  for (let n = 0; n < targets_N.length; n++) {
    if (targets_N[n] === NO_TARGET) {
      dlogits_NV.fill(0, n * V, (n + 1) * V);
      continue;
    }
    const target = n * V + at(targets_N, n);
    let most = -Infinity;
    for (let v = n * V; v < (n + 1) * V; v++) most = Math.max(most, logits_NV[v] ?? 0);
    let others = 0;
    for (let v = n * V; v < (n + 1) * V; v++) {
      const power = Math.exp((logits_NV[v] ?? 0) - most);
      dlogits_NV[v] = power;
      if (v !== target) others += power;
    }
    const rest = most - (logits_NV[target] ?? 0);
    const sum = others + Math.exp(-rest);
    losses_N[n] = rest > 0 ? rest + Math.log(sum) : Math.log1p(others);
    dlogits_NV[target] = -others;
    for (let v = n * V; v < (n + 1) * V; v++) dlogits_NV[v] = ((dlogits_NV[v] ?? 0) * scale) / sum;
  }
}

/**
 * DPO (Rafailov et al. 2023, equation 7) of windows of T rows with a pair each. The losses of their rows become those of the
 * pairs, each in its first row: −log σ(β·margin), the margin being by how much the adapter moved log π(chosen) − log π(rejected),
 * which begin at a window's first row and at a later one. Each row's gradient is multiplied with its part in the pair's.
 */
export function preferencePairs(
  { losses: losses_N, dx: dlogits_NV }: { readonly losses: Matrix; readonly dx: Matrix },
  firstRows: readonly number[],
  T: number,
  beta: number,
): void {
  const [half, V] = [T / 2, dlogits_NV.length / losses_N.length];
  const sideOf = (n: number): number => (at(firstRows, n) === 0 ? 1 : -1);
  for (let start = 0; start < losses_N.length; start += T) {
    let margin = 0;
    for (let n = start; n < start + half; n++) margin += sideOf(n) * (at(losses_N, n + half) - at(losses_N, n));
    const unsure = 1 / (1 + Math.exp(beta * margin));
    for (let n = start; n < start + T; n++) {
      const part = n < start + half ? beta * unsure * sideOf(n) : 0;
      for (let i = n * V; i < (n + 1) * V; i++) dlogits_NV[i] = (dlogits_NV[i] ?? 0) * part;
    }
    losses_N.fill(0, start, start + T);
    losses_N[start] = Math.max(0, -beta * margin) + Math.log1p(Math.exp(-Math.abs(beta * margin)));
  }
}
