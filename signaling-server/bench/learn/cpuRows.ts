/** Rows of the CPU trainer that are no products, in float32: the formulas are those of swarm/reference/operations.ts. */

/** y of each row from its mean and 1/√(variance + ε). C is the length of the weight. */
export function layerNorm(
  x_NC: Float32Array,
  [weight_C, bias_C]: readonly [Float32Array, Float32Array],
  epsilon: number,
  y_NC: Float32Array,
): void {
  const C = weight_C.length;
  for (let row = 0; row < x_NC.length; row += C) {
    const [mean, inverse] = moments(x_NC, row, C, epsilon);
    for (let c = 0; c < C; c++)
      y_NC[row + c] = ((x_NC[row + c] ?? 0) - mean) * inverse * (weight_C[c] ?? 0) + (bias_C[c] ?? 0);
  }
}

function moments(x_NC: Float32Array, row: number, C: number, epsilon: number): readonly [number, number] {
  let sum = 0;
  for (let c = row; c < row + C; c++) sum += x_NC[c] ?? 0;
  const mean = sum / C;
  let squares = 0;
  for (let c = row; c < row + C; c++) squares += ((x_NC[c] ?? 0) - mean) ** 2;
  return [mean, 1 / Math.sqrt(squares / C + epsilon)];
}

interface NormGradients {
  readonly dy: Float32Array;
  readonly dx: Float32Array;
  /** Of the weight and of the bias. */
  readonly gradients: readonly [Float32Array, Float32Array];
}

/** With n = (x − mean)·inverse and g = dy·weight: dx = inverse·(g − mean(g) − n·mean(g·n)). */
export function layerNormBackward(
  x_NC: Float32Array,
  weight_C: Float32Array,
  epsilon: number,
  { dy, dx, gradients: [dweight_C, dbias_C] }: NormGradients,
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
      dweight_C[c] = (dweight_C[c] ?? 0) + slope * n;
      dbias_C[c] = (dbias_C[c] ?? 0) + slope;
    }
    const [meanG, meanGn] = [sumG / C, sumGn / C];
    for (let c = 0; c < C; c++) {
      const n = ((x_NC[row + c] ?? 0) - mean) * inverse;
      const g = (dy[row + c] ?? 0) * (weight_C[c] ?? 0);
      dx[row + c] = (dx[row + c] ?? 0) + inverse * (g - meanG - n * meanGn);
    }
  }
}

const GELU_SCALE = Math.sqrt(2 / Math.PI);
const GELU_CUBE = 0.044715;

/** gelu_new in place; `slope` keeps its derivative for the backward. */
export function gelu(y: Float32Array, slope: Float32Array): void {
  for (let i = 0; i < y.length; i++) {
    const x = y[i] ?? 0;
    // tanh(z) = 1 − 2/(exp(2z) + 1), which is faster than Math.tanh.
    const t = 1 - 2 / (Math.exp(2 * GELU_SCALE * (x + GELU_CUBE * x * x * x)) + 1);
    slope[i] = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
    y[i] = 0.5 * x * (1 + t);
  }
}

/** The gradient of what went in, in the place of the gradient of what came out. */
export function geluBackward(dy: Float32Array, slope: Float32Array): void {
  for (let i = 0; i < dy.length; i++) dy[i] = (dy[i] ?? 0) * (slope[i] ?? 0);
}

/** Mean of −log softmax(logits)[target], and its gradient, of which the target's element is −Σ of the others'. */
export function crossEntropy(
  logits_NV: Float32Array,
  targets: Int32Array,
  V: number,
  dlogits_NV: Float32Array,
): number {
  const N = targets.length;
  let loss = 0;
  for (let n = 0; n < N; n++) {
    const target = n * V + (targets[n] ?? 0);
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
    loss += (rest > 0 ? rest + Math.log(sum) : Math.log1p(others)) / N;
    dlogits_NV[target] = -others;
    for (let v = n * V; v < (n + 1) * V; v++) dlogits_NV[v] = (dlogits_NV[v] ?? 0) / (sum * N);
  }
  return loss;
}

/** A matrix of so many rows and columns, turned: [columns, rows]. */
export function transposed(matrix: Float32Array, rows: number, columns: number, into: Float32Array): Float32Array {
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) into[column * rows + row] = matrix[row * columns + column] ?? 0;
  return into;
}

/** y += x */
export function addAll(y: Float32Array, x: Float32Array): void {
  for (let i = 0; i < y.length; i++) y[i] = (y[i] ?? 0) + (x[i] ?? 0);
}

/** The sum of all rows. */
export function addRows(sum_Q: Float32Array, y_NQ: Float32Array): void {
  const Q = sum_Q.length;
  for (let row = 0; row < y_NQ.length; row += Q)
    for (let q = 0; q < Q; q++) sum_Q[q] = (sum_Q[q] ?? 0) + (y_NQ[row + q] ?? 0);
}
