/**
 * Each operation row of the model table as plain float64 loops, forward and backward: the formula to read, and the
 * oracle to compare with. Matrices are row-major: x is [N, K], a linear weight [K, M] (inOut) or [M, K] (outIn). The rows
 * of Llama alone stand in llama.ts.
 * The gradient of x is dx; every backward adds to what stands there, since activations and tied tensors are read twice.
 */
import { assertNever, invariant } from '../base.ts';
import type { Operation } from '../model/model.ts';
import { attendRow, attendRowBackward, softmax } from './attention.ts';
import { rmsNorm, rmsNormBackward, rotate, swiGlu, swiGluBackward } from './llama.ts';

type Matrix = Float64Array;
export type Matrices = ReadonlyMap<string, Matrix>;

/** What the rows of one block run on. */
export interface Pass {
  /** C, the model's width. */
  readonly width: number;
  /** Tensors of the whole model, by full name. */
  readonly tensors: Matrices;
  readonly activations: Map<string, Matrix>;
  /** Token ids, samples × T of them. */
  readonly ids: ArrayLike<number>;
  readonly targets: ArrayLike<number>;
  /** Position of a row in its sample. */
  readonly position: (row: number) => number;
  /** What each target's loss counts: 1/(B·T) of the step. */
  readonly lossScale: number;
}

export interface Gradients {
  readonly tensors: Map<string, Matrix>;
  readonly activations: Map<string, Matrix>;
}

type Row<Op extends Operation['op']> = Extract<Operation, { op: Op }>;

/** Runs a row forward. Answers with the scaled loss of a cross-entropy, else 0. */
export function forward(operation: Operation, pass: Pass): number {
  switch (operation.op) {
    case 'embed':
      pass.activations.set(operation.y, embed(operation, pass));
      return 0;
    case 'layerNorm':
      pass.activations.set(operation.y, layerNorm(operation, pass));
      return 0;
    case 'rmsNorm': {
      const { x, weight, epsilon, y } = operation;
      pass.activations.set(y, rmsNorm(matrix(pass.activations, x), matrix(pass.tensors, weight), epsilon));
      return 0;
    }
    case 'rotary':
      pass.activations.set(
        operation.y,
        rotate(matrix(pass.activations, operation.x).slice(), operation, pass.position, 1),
      );
      return 0;
    case 'swiGlu':
      pass.activations.set(operation.y, swiGlu(matrix(pass.activations, operation.x), operation.innerWidth));
      return 0;
    case 'linear':
      linear(operation, pass);
      return 0;
    case 'attention':
      pass.activations.set(operation.y, attention(operation, pass));
      return 0;
    case 'crossEntropy':
      return crossEntropy(operation, pass);
    default:
      return assertNever(operation);
  }
}

/** Adds a row's gradients to those of its inputs and tensors. */
export function backward(operation: Operation, pass: Pass, gradients: Gradients): void {
  switch (operation.op) {
    case 'embed':
      embedBackward(operation, pass, gradients);
      break;
    case 'layerNorm':
      layerNormBackward(operation, pass, gradients);
      break;
    case 'rmsNorm': {
      const [x, weight] = [matrix(pass.activations, operation.x), matrix(pass.tensors, operation.weight)];
      rmsNormBackward(
        { x, weight, dy: matrix(gradients.activations, operation.y) },
        operation.epsilon,
        gradient(gradients.activations, operation.x, x.length),
        gradient(gradients.tensors, operation.weight, weight.length),
      );
      break;
    }
    case 'rotary':
      // In place, as the forward is: the gradient of what was turned is turned back.
      rotate(matrix(gradients.activations, operation.y), operation, pass.position, -1);
      break;
    case 'swiGlu': {
      const x = matrix(pass.activations, operation.x);
      const dx = gradient(gradients.activations, operation.x, x.length);
      swiGluBackward(x, matrix(gradients.activations, operation.y), operation.innerWidth, dx);
      break;
    }
    case 'linear':
      linearBackward(operation, pass, gradients);
      break;
    case 'attention':
      attentionBackward(operation, pass, gradients);
      break;
    case 'crossEntropy':
      crossEntropyBackward(operation, pass, gradients);
      break;
    default:
      assertNever(operation);
  }
}

export function matrix(matrices: Matrices, name: string): Matrix {
  const found = matrices.get(name);
  invariant(found, `there is no matrix ${name}`);
  return found;
}

/** The gradient of `name`, zeros at first. */
function gradient(gradients: Map<string, Matrix>, name: string, elements: number): Matrix {
  const found = gradients.get(name) ?? new Float64Array(elements);
  gradients.set(name, found);
  return found;
}

function embed({ token, position: positions }: Row<'embed'>, { tensors, ids, position, width }: Pass): Matrix {
  const wte = matrix(tensors, token);
  const wpe = positions === null ? null : matrix(tensors, positions);
  const y = new Float64Array(ids.length * width);
  for (let row = 0; row < ids.length; row++)
    for (let c = 0; c < width; c++)
      y[row * width + c] = wte[ids[row] * width + c] + (wpe ? wpe[position(row) * width + c] : 0);
  return y;
}

function embedBackward({ token, position: positions, y }: Row<'embed'>, pass: Pass, gradients: Gradients): void {
  const { tensors, ids, position, width } = pass;
  const dy = matrix(gradients.activations, y);
  const dwte = gradient(gradients.tensors, token, matrix(tensors, token).length);
  const dwpe = positions === null ? null : gradient(gradients.tensors, positions, matrix(tensors, positions).length);
  for (let row = 0; row < ids.length; row++)
    for (let c = 0; c < width; c++) {
      dwte[ids[row] * width + c] += dy[row * width + c];
      if (dwpe) dwpe[position(row) * width + c] += dy[row * width + c];
    }
}

/** Mean and 1/√(variance + ε) of one row. */
function moments(x: Matrix, offset: number, width: number, epsilon: number): readonly [mean: number, inverse: number] {
  let mean = 0;
  for (let c = 0; c < width; c++) mean += x[offset + c] / width;
  let variance = 0;
  for (let c = 0; c < width; c++) variance += (x[offset + c] - mean) ** 2 / width;
  return [mean, 1 / Math.sqrt(variance + epsilon)];
}

function layerNorm(operation: Row<'layerNorm'>, { activations, tensors, width }: Pass): Matrix {
  const x = matrix(activations, operation.x);
  const [weight, bias] = [matrix(tensors, operation.weight), matrix(tensors, operation.bias)];
  const y = new Float64Array(x.length);
  for (let offset = 0; offset < x.length; offset += width) {
    const [mean, inverse] = moments(x, offset, width, operation.epsilon);
    for (let c = 0; c < width; c++) y[offset + c] = (x[offset + c] - mean) * inverse * weight[c] + bias[c];
  }
  return y;
}

/** With n = (x − mean)·inverse and g = dy·weight: dx = inverse·(g − mean(g) − n·mean(g·n)). */
function layerNormBackward(operation: Row<'layerNorm'>, pass: Pass, gradients: Gradients): void {
  const { activations, tensors, width } = pass;
  const x = matrix(activations, operation.x);
  const weight = matrix(tensors, operation.weight);
  const dy = matrix(gradients.activations, operation.y);
  const dx = gradient(gradients.activations, operation.x, x.length);
  const dweight = gradient(gradients.tensors, operation.weight, width);
  const dbias = gradient(gradients.tensors, operation.bias, width);
  for (let offset = 0; offset < x.length; offset += width) {
    const [mean, inverse] = moments(x, offset, width, operation.epsilon);
    let [meanG, meanGn] = [0, 0];
    for (let c = 0; c < width; c++) {
      const n = (x[offset + c] - mean) * inverse;
      const g = dy[offset + c] * weight[c];
      meanG += g / width;
      meanGn += (g * n) / width;
      dweight[c] += dy[offset + c] * n;
      dbias[c] += dy[offset + c];
    }
    for (let c = 0; c < width; c++) {
      const n = (x[offset + c] - mean) * inverse;
      dx[offset + c] += inverse * (dy[offset + c] * weight[c] - meanG - n * meanGn);
    }
  }
}

/** The weight of a linear row: one tensor, or the rows of several, one below the other. */
function weightOf({ weights }: Row<'linear'>, tensors: Matrices): Matrix {
  const parts = weights.map((name) => matrix(tensors, name));
  if (parts.length === 1) return parts[0];
  const whole = new Float64Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Adds the gradient of such a weight to those of its tensors. */
function addToWeights({ weights }: Row<'linear'>, dweight: Matrix, tensors: Matrices, gradients: Gradients): void {
  let at = 0;
  for (const name of weights) {
    const { length } = matrix(tensors, name);
    const part = gradient(gradients.tensors, name, length);
    for (let i = 0; i < length; i++) part[i] += dweight[at + i];
    at += length;
  }
}

/** Steps of k and m through a weight of either layout. */
const strides = ({ weightLayout, inWidth, outWidth }: Row<'linear'>): readonly [k: number, m: number] =>
  weightLayout === 'inOut' ? [outWidth, 1] : [1, inWidth];

function linear(operation: Row<'linear'>, { activations, tensors }: Pass): void {
  const { inWidth: K, outWidth: M, residual, bias } = operation;
  const [strideK, strideM] = strides(operation);
  const x = matrix(activations, operation.x);
  const weight = weightOf(operation, tensors);
  const y = new Float64Array((x.length / K) * M);
  for (let n = 0; n < x.length / K; n++) {
    if (bias) y.set(matrix(tensors, bias), n * M);
    for (let k = 0; k < K; k++) {
      const xk = x[n * K + k];
      for (let m = 0; m < M; m++) y[n * M + m] += xk * weight[k * strideK + m * strideM];
    }
  }
  if (operation.activation === 'gelu') {
    activations.set(`${operation.y}.pre`, y.slice());
    for (let i = 0; i < y.length; i++) y[i] = gelu(y[i]);
  }
  if (residual) {
    const added = matrix(activations, residual);
    for (let i = 0; i < y.length; i++) y[i] += added[i];
  }
  activations.set(operation.y, y);
}

function linearBackward(operation: Row<'linear'>, { activations, tensors }: Pass, gradients: Gradients): void {
  const { inWidth: K, outWidth: M, residual, bias } = operation;
  const [strideK, strideM] = strides(operation);
  const x = matrix(activations, operation.x);
  const weight = weightOf(operation, tensors);
  const dy = matrix(gradients.activations, operation.y);
  if (residual) {
    const dresidual = gradient(gradients.activations, residual, dy.length);
    for (let i = 0; i < dy.length; i++) dresidual[i] += dy[i];
  }
  const dpre = dy.slice();
  if (operation.activation === 'gelu') {
    const pre = matrix(activations, `${operation.y}.pre`);
    for (let i = 0; i < dpre.length; i++) dpre[i] *= geluSlope(pre[i]);
  }
  const dx = gradient(gradients.activations, operation.x, x.length);
  const dweight = new Float64Array(weight.length);
  const dbias = bias ? gradient(gradients.tensors, bias, M) : null;
  for (let n = 0; n < x.length / K; n++) {
    if (dbias) for (let m = 0; m < M; m++) dbias[m] += dpre[n * M + m];
    for (let k = 0; k < K; k++) {
      const xk = x[n * K + k];
      let sum = 0;
      for (let m = 0; m < M; m++) {
        const g = dpre[n * M + m];
        sum += g * weight[k * strideK + m * strideM];
        dweight[k * strideK + m * strideM] += g * xk;
      }
      dx[n * K + k] += sum;
    }
  }
  addToWeights(operation, dweight, tensors, gradients);
}

const GELU_SCALE = Math.sqrt(2 / Math.PI);
const GELU_CUBE = 0.044715;
/** gelu_new: ½x(1 + tanh(√(2/π)(x + 0.044715x³))). */
const gelu = (x: number): number => 0.5 * x * (1 + Math.tanh(GELU_SCALE * (x + GELU_CUBE * x ** 3)));

function geluSlope(x: number): number {
  const t = Math.tanh(GELU_SCALE * (x + GELU_CUBE * x ** 3));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_SCALE * (1 + 3 * GELU_CUBE * x * x);
}

function attention(operation: Row<'attention'>, { activations, ids, position }: Pass): Matrix {
  const qkv = matrix(activations, operation.qkv);
  const width = operation.heads * operation.headWidth;
  const y = new Float64Array(ids.length * width);
  for (let row = 0; row < ids.length; row++) attendRow(operation, qkv, [row - position(row), row], y, row * width);
  return y;
}

function attentionBackward(operation: Row<'attention'>, pass: Pass, gradients: Gradients): void {
  const qkv = matrix(pass.activations, operation.qkv);
  const dy = matrix(gradients.activations, operation.y);
  const dqkv = gradient(gradients.activations, operation.qkv, qkv.length);
  for (let row = 0; row < pass.ids.length; row++)
    attendRowBackward(operation, { qkv, dqkv, dy }, [row - pass.position(row), row]);
}

/** Σ over rows of lossScale·(log Σ exp(logits) − logits[target]). */
function crossEntropy({ logits, vocabulary }: Row<'crossEntropy'>, { activations, targets, lossScale }: Pass): number {
  const all = matrix(activations, logits);
  let loss = 0;
  for (let row = 0; row < targets.length; row++) {
    const probabilities = softmax(all.slice(row * vocabulary, (row + 1) * vocabulary));
    loss -= lossScale * Math.log(probabilities[targets[row]]);
  }
  return loss;
}

function crossEntropyBackward(operation: Row<'crossEntropy'>, pass: Pass, gradients: Gradients): void {
  const { logits, vocabulary } = operation;
  const all = matrix(pass.activations, logits);
  const dlogits = gradient(gradients.activations, logits, all.length);
  for (let row = 0; row < pass.targets.length; row++) {
    const probabilities = softmax(all.slice(row * vocabulary, (row + 1) * vocabulary));
    probabilities[pass.targets[row]] -= 1;
    for (let v = 0; v < vocabulary; v++) dlogits[row * vocabulary + v] += pass.lossScale * probabilities[v];
  }
}
