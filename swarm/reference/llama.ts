/**
 * The operation rows that Llama alone has, as plain float64 loops: RMS norm, rotary positions, SwiGLU. Forwards answer
 * with y; backwards add to the gradients that they are given.
 */

/** y = x·r·weight with r = 1/√(mean x² + ε), row by row. */
export function rmsNorm(x: Float64Array, weight: Float64Array, epsilon: number): Float64Array {
  const C = weight.length;
  const y = new Float64Array(x.length);
  for (let offset = 0; offset < x.length; offset += C) {
    const r = inverseRms(x, offset, C, epsilon);
    for (let c = 0; c < C; c++) y[offset + c] = x[offset + c] * r * weight[c];
  }
  return y;
}

function inverseRms(x: Float64Array, offset: number, C: number, epsilon: number): number {
  let mean = 0;
  for (let c = 0; c < C; c++) mean += x[offset + c] ** 2 / C;
  return 1 / Math.sqrt(mean + epsilon);
}

/** With n = x·r and g = dy·weight: dx = r·(g − n·mean(g·n)), dweight = Σ dy·n. */
export function rmsNormBackward(
  { x, weight, dy }: { readonly x: Float64Array; readonly weight: Float64Array; readonly dy: Float64Array },
  epsilon: number,
  dx: Float64Array,
  dweight: Float64Array,
): void {
  const C = weight.length;
  for (let offset = 0; offset < x.length; offset += C) {
    const r = inverseRms(x, offset, C, epsilon);
    let mean = 0;
    for (let c = 0; c < C; c++) {
      mean += (dy[offset + c] * weight[c] * x[offset + c] * r) / C;
      dweight[c] += dy[offset + c] * x[offset + c] * r;
    }
    for (let c = 0; c < C; c++) dx[offset + c] += r * (dy[offset + c] * weight[c] - x[offset + c] * r * mean);
  }
}

interface Rotary {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
  readonly theta: number;
}

/** Turns queries and keys of qkv [N, (H+2K)·D] in place by `sign` times the angle of their row's position. */
export function rotate(
  qkv: Float64Array,
  { heads, keyValueHeads, headWidth, theta }: Rotary,
  position: (row: number) => number,
  sign: 1 | -1,
): Float64Array {
  const stride = (heads + 2 * keyValueHeads) * headWidth;
  const half = headWidth / 2;
  for (let row = 0; row < qkv.length / stride; row++)
    for (let head = 0; head < heads + keyValueHeads; head++)
      for (let d = 0; d < half; d++) {
        const angle = sign * position(row) * theta ** ((-2 * d) / headWidth);
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        const at = row * stride + head * headWidth + d;
        const [first, second] = [qkv[at], qkv[at + half]];
        qkv[at] = first * cos - second * sin;
        qkv[at + half] = second * cos + first * sin;
      }
  return qkv;
}

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));

/** y = silu(gate)·up with silu(x) = x·logistic(x); x is [N, 2·I], gate and up side by side. */
export function swiGlu(x: Float64Array, innerWidth: number): Float64Array {
  const y = new Float64Array(x.length / 2);
  for (let i = 0; i < y.length; i++) {
    const at = gateOf(i, innerWidth);
    y[i] = x[at] * logistic(x[at]) * x[at + innerWidth];
  }
  return y;
}

/** silu′(x) = s + x·s·(1 − s) with s = logistic(x). */
export function swiGluBackward(x: Float64Array, dy: Float64Array, innerWidth: number, dx: Float64Array): void {
  for (let i = 0; i < dy.length; i++) {
    const at = gateOf(i, innerWidth);
    const s = logistic(x[at]);
    dx[at] += dy[i] * x[at + innerWidth] * (s + x[at] * s * (1 - s));
    dx[at + innerWidth] += dy[i] * x[at] * s;
  }
}

/** Where in x the gate of y's element i stands. */
const gateOf = (i: number, innerWidth: number): number =>
  Math.floor(i / innerWidth) * 2 * innerWidth + (i % innerWidth);
