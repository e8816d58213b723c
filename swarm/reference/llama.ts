/**
 * The operation rows that Llama alone has, as plain float64 loops: RMS norm, rotary positions, SwiGLU. Forwards answer
 * with y; backwards add to the gradients that they are given.
 *
 * Letters: N rows, C the model's width, I the inner width of SwiGLU (2I: its gate and up side by side), E heads of
 * queries, keys and values in a row of qkv, D their width.
 */
import { add, type Matrix, read } from './matrix.ts';

/** y = x·r·weight with r = 1/√(mean x² + ε), row by row. */
export function rmsNorm(x_NC: Matrix, weight_C: Matrix, epsilon: number): Matrix {
  const C = weight_C.length;
  const y_NC = new Float64Array(x_NC.length);
  for (let row = 0; row < x_NC.length; row += C) {
    const r = inverseRms(x_NC, row, C, epsilon);
    for (let c = 0; c < C; c++) y_NC[row + c] = read(x_NC, row + c) * r * read(weight_C, c);
  }
  return y_NC;
}

/** r of the row that starts at element `row`. */
function inverseRms(x_NC: Matrix, row: number, C: number, epsilon: number): number {
  let mean = 0;
  for (let c = 0; c < C; c++) mean += read(x_NC, row + c) ** 2 / C;
  return 1 / Math.sqrt(mean + epsilon);
}

/** With n = x·r and g = dy·weight: dx = r·(g − n·mean(g·n)), dweight = Σ dy·n. */
export function rmsNormBackward(
  { x_NC, weight_C, dy_NC }: Readonly<Record<'x_NC' | 'weight_C' | 'dy_NC', Matrix>>,
  epsilon: number,
  dx_NC: Matrix,
  dweight_C: Matrix,
): void {
  const C = weight_C.length;
  for (let row = 0; row < x_NC.length; row += C) {
    const r = inverseRms(x_NC, row, C, epsilon);
    let mean = 0;
    for (let c = 0; c < C; c++) {
      const [x, dy] = [read(x_NC, row + c), read(dy_NC, row + c)];
      mean += (dy * read(weight_C, c) * x * r) / C;
      add(dweight_C, c, dy * x * r);
    }
    for (let c = 0; c < C; c++)
      add(dx_NC, row + c, r * (read(dy_NC, row + c) * read(weight_C, c) - read(x_NC, row + c) * r * mean));
  }
}

interface Rotary {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
  readonly theta: number;
}

/** Turns queries and keys in place by `sign` times the angle of their row's position. */
export function rotate(
  qkv_NED: Matrix,
  { heads, keyValueHeads, headWidth, theta }: Rotary,
  position: (row: number) => number,
  sign: 1 | -1,
): Matrix {
  const stride = (heads + 2 * keyValueHeads) * headWidth;
  const half = headWidth / 2;
  for (let row = 0; row < qkv_NED.length / stride; row++)
    for (let head = 0; head < heads + keyValueHeads; head++)
      for (let d = 0; d < half; d++) {
        const angle = sign * position(row) * theta ** ((-2 * d) / headWidth);
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        const i = row * stride + head * headWidth + d;
        const [first, second] = [read(qkv_NED, i), read(qkv_NED, i + half)];
        qkv_NED[i] = first * cos - second * sin;
        qkv_NED[i + half] = second * cos + first * sin;
      }
  return qkv_NED;
}

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));

/** y = silu(gate)·up with silu(x) = x·logistic(x). */
export function swiGlu(x_N2I: Matrix, I: number): Matrix {
  const y_NI = new Float64Array(x_N2I.length / 2);
  for (let i = 0; i < y_NI.length; i++) {
    const { gate, up } = gateAndUp(x_N2I, i, I);
    y_NI[i] = gate * logistic(gate) * up;
  }
  return y_NI;
}

/** silu′(x) = s + x·s·(1 − s) with s = logistic(x). */
export function swiGluBackward(x_N2I: Matrix, dy_NI: Matrix, I: number, dx_N2I: Matrix): void {
  for (const [i, dy] of dy_NI.entries()) {
    const { from, gate, up } = gateAndUp(x_N2I, i, I);
    const s = logistic(gate);
    add(dx_N2I, from, dy * up * (s + gate * s * (1 - s)));
    add(dx_N2I, from + I, dy * gate * s);
  }
}

/** What y's element i is made of, and where in x its gate stands; up stands I behind it. */
function gateAndUp(
  x_N2I: Matrix,
  i: number,
  I: number,
): { readonly from: number; readonly gate: number; readonly up: number } {
  const from = Math.floor(i / I) * 2 * I + (i % I);
  return { from, gate: read(x_N2I, from), up: read(x_N2I, from + I) };
}
