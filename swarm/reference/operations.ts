/**
 * Each operation row of the model table as plain float64 loops, forward and backward: the formula to read, and the
 * oracle to compare with. The rows of Llama alone stand in llama.ts.
 * The gradient of x is dx; every backward adds to what stands there, since activations and tied tensors are read twice.
 *
 * Letters: N rows, T positions, C the model's width, V vocabulary; a linear row has P columns in and Q out, its weight is
 * [P, Q] (inOut) or [Q, P] (outIn); H heads of queries, E heads of queries, keys and values, D their width.
 */
import { assertNever, at } from '../base.ts';
import type { Operation } from '../model/model.ts';
import { attendRow, attendRowBackward } from './attention.ts';
import { rmsNorm, rmsNormBackward, rotate, swiGlu, swiGluBackward } from './llama.ts';
import { add, addAll, addScaled, dot, gradient, type Matrices, type Matrix, matrix, read } from './matrix.ts';

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

type OperationOf<Op extends Operation['op']> = Extract<Operation, { op: Op }>;

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
      const [x_NC, weight_C] = [matrix(pass.activations, operation.x), matrix(pass.tensors, operation.weight)];
      rmsNormBackward(
        { x_NC, weight_C, dy_NC: matrix(gradients.activations, operation.y) },
        operation.epsilon,
        gradient(gradients.activations, operation.x, x_NC.length),
        gradient(gradients.tensors, operation.weight, weight_C.length),
      );
      break;
    }
    case 'rotary':
      // In place, as the forward is: the gradient of what was turned is turned back.
      rotate(matrix(gradients.activations, operation.y), operation, pass.position, -1);
      break;
    case 'swiGlu': {
      const x_N2I = matrix(pass.activations, operation.x);
      const dx_N2I = gradient(gradients.activations, operation.x, x_N2I.length);
      swiGluBackward(x_N2I, matrix(gradients.activations, operation.y), operation.innerWidth, dx_N2I);
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

function embed(
  { token, position: positions }: OperationOf<'embed'>,
  { tensors, ids, position, width: C }: Pass,
): Matrix {
  const token_VC = matrix(tensors, token);
  const position_TC = positions === null ? null : matrix(tensors, positions);
  const y_NC = new Float64Array(ids.length * C);
  for (let n = 0; n < ids.length; n++) {
    const y_C = { values: y_NC, from: n * C };
    addScaled(y_C, 1, { values: token_VC, from: at(ids, n) * C }, C);
    if (position_TC) addScaled(y_C, 1, { values: position_TC, from: position(n) * C }, C);
  }
  return y_NC;
}

function embedBackward(
  { token, position: positions, padding, y }: OperationOf<'embed'>,
  pass: Pass,
  gradients: Gradients,
): void {
  const { tensors, ids, position, width: C } = pass;
  const dy_NC = matrix(gradients.activations, y);
  const dtoken_VC = gradient(gradients.tensors, token, matrix(tensors, token).length);
  const dposition_TC =
    positions === null ? null : gradient(gradients.tensors, positions, matrix(tensors, positions).length);
  for (let n = 0; n < ids.length; n++) {
    const dy_C = { values: dy_NC, from: n * C };
    if (ids[n] !== padding) addScaled({ values: dtoken_VC, from: at(ids, n) * C }, 1, dy_C, C);
    if (dposition_TC) addScaled({ values: dposition_TC, from: position(n) * C }, 1, dy_C, C);
  }
}

/** Mean and 1/√(variance + ε) of the row that starts at element `row`. */
function moments(x_NC: Matrix, row: number, C: number, epsilon: number): readonly [mean: number, inverse: number] {
  let mean = 0;
  for (let c = 0; c < C; c++) mean += read(x_NC, row + c) / C;
  let variance = 0;
  for (let c = 0; c < C; c++) variance += (read(x_NC, row + c) - mean) ** 2 / C;
  return [mean, 1 / Math.sqrt(variance + epsilon)];
}

function layerNorm(operation: OperationOf<'layerNorm'>, { activations, tensors, width: C }: Pass): Matrix {
  const x_NC = matrix(activations, operation.x);
  const [weight_C, bias_C] = [matrix(tensors, operation.weight), matrix(tensors, operation.bias)];
  const y_NC = new Float64Array(x_NC.length);
  for (let row = 0; row < x_NC.length; row += C) {
    const [mean, inverse] = moments(x_NC, row, C, operation.epsilon);
    for (let c = 0; c < C; c++)
      y_NC[row + c] = (read(x_NC, row + c) - mean) * inverse * read(weight_C, c) + read(bias_C, c);
  }
  return y_NC;
}

/** With n = (x − mean)·inverse and g = dy·weight: dx = inverse·(g − mean(g) − n·mean(g·n)). */
function layerNormBackward(operation: OperationOf<'layerNorm'>, pass: Pass, gradients: Gradients): void {
  const { activations, tensors, width: C } = pass;
  const x_NC = matrix(activations, operation.x);
  const weight_C = matrix(tensors, operation.weight);
  const dy_NC = matrix(gradients.activations, operation.y);
  const dx_NC = gradient(gradients.activations, operation.x, x_NC.length);
  const dweight_C = gradient(gradients.tensors, operation.weight, C);
  const dbias_C = gradient(gradients.tensors, operation.bias, C);
  for (let row = 0; row < x_NC.length; row += C) {
    const [mean, inverse] = moments(x_NC, row, C, operation.epsilon);
    let [meanG, meanGn] = [0, 0];
    for (let c = 0; c < C; c++) {
      const n = (read(x_NC, row + c) - mean) * inverse;
      const dy = read(dy_NC, row + c);
      const g = dy * read(weight_C, c);
      meanG += g / C;
      meanGn += (g * n) / C;
      add(dweight_C, c, dy * n);
      add(dbias_C, c, dy);
    }
    for (let c = 0; c < C; c++) {
      const n = (read(x_NC, row + c) - mean) * inverse;
      add(dx_NC, row + c, inverse * (read(dy_NC, row + c) * read(weight_C, c) - meanG - n * meanGn));
    }
  }
}

/** The weight of a linear row: one tensor, or the rows of several, one below the other. */
function weightOf({ weights }: OperationOf<'linear'>, tensors: Matrices): Matrix {
  const parts = weights.map((name) => matrix(tensors, name));
  if (parts.length === 1) return at(parts, 0);
  const whole = new Float64Array(parts.reduce((sum, { length }) => sum + length, 0));
  let begin = 0;
  for (const part of parts) {
    whole.set(part, begin);
    begin += part.length;
  }
  return whole;
}

/** Adds the gradient of such a weight to those of its tensors. */
function addToWeights(
  { weights }: OperationOf<'linear'>,
  dweight: Matrix,
  tensors: Matrices,
  gradients: Gradients,
): void {
  let begin = 0;
  for (const name of weights) {
    const { length } = matrix(tensors, name);
    addAll(gradient(gradients.tensors, name, length), dweight.subarray(begin, begin + length));
    begin += length;
  }
}

/** Steps of p and q through a weight of either layout. */
const strides = ({ weightLayout, inWidth, outWidth }: OperationOf<'linear'>): readonly [p: number, q: number] =>
  weightLayout === 'inOut' ? [outWidth, 1] : [1, inWidth];

function linear(operation: OperationOf<'linear'>, { activations, tensors }: Pass): void {
  const { inWidth: P, outWidth: Q, residual, bias } = operation;
  const [strideP, strideQ] = strides(operation);
  const x_NP = matrix(activations, operation.x);
  const weight = weightOf(operation, tensors);
  const y_NQ = new Float64Array((x_NP.length / P) * Q);
  for (let n = 0; n < x_NP.length / P; n++) {
    if (bias) y_NQ.set(matrix(tensors, bias), n * Q);
    for (let p = 0; p < P; p++) {
      const weight_Q = { values: weight, from: p * strideP, step: strideQ };
      addScaled({ values: y_NQ, from: n * Q }, read(x_NP, n * P + p), weight_Q, Q);
    }
  }
  if (operation.activation === 'gelu') {
    activations.set(`${operation.y}.pre`, y_NQ.slice());
    for (const [i, pre] of y_NQ.entries()) y_NQ[i] = gelu(pre);
  }
  if (residual) addAll(y_NQ, matrix(activations, residual));
  activations.set(operation.y, y_NQ);
}

function linearBackward(operation: OperationOf<'linear'>, { activations, tensors }: Pass, gradients: Gradients): void {
  const { inWidth: P, outWidth: Q, residual, bias } = operation;
  const [strideP, strideQ] = strides(operation);
  const x_NP = matrix(activations, operation.x);
  const weight = weightOf(operation, tensors);
  const dy_NQ = matrix(gradients.activations, operation.y);
  if (residual) addAll(gradient(gradients.activations, residual, dy_NQ.length), dy_NQ);
  const dpre_NQ = dy_NQ.slice();
  if (operation.activation === 'gelu')
    for (const [i, pre] of matrix(activations, `${operation.y}.pre`).entries())
      dpre_NQ[i] = read(dy_NQ, i) * geluSlope(pre);
  const dx_NP = gradient(gradients.activations, operation.x, x_NP.length);
  const dweight = new Float64Array(weight.length);
  const dbias_Q = bias ? gradient(gradients.tensors, bias, Q) : null;
  for (let n = 0; n < x_NP.length / P; n++) {
    const dpre_Q = { values: dpre_NQ, from: n * Q };
    if (dbias_Q) addScaled({ values: dbias_Q, from: 0 }, 1, dpre_Q, Q);
    for (let p = 0; p < P; p++) {
      const [from, step] = [p * strideP, strideQ];
      add(dx_NP, n * P + p, dot(dpre_Q, { values: weight, from, step }, Q));
      addScaled({ values: dweight, from, step }, read(x_NP, n * P + p), dpre_Q, Q);
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

function attention(operation: OperationOf<'attention'>, { activations, ids, position }: Pass): Matrix {
  const qkv_NED = matrix(activations, operation.qkv);
  const width = operation.heads * operation.headWidth;
  const y_NHD = new Float64Array(ids.length * width);
  for (let n = 0; n < ids.length; n++) attendRow(operation, qkv_NED, [n - position(n), n], y_NHD, n * width);
  return y_NHD;
}

function attentionBackward(operation: OperationOf<'attention'>, pass: Pass, gradients: Gradients): void {
  const qkv_NED = matrix(pass.activations, operation.qkv);
  const dy_NHD = matrix(gradients.activations, operation.y);
  const dqkv_NED = gradient(gradients.activations, operation.qkv, qkv_NED.length);
  for (let n = 0; n < pass.ids.length; n++)
    attendRowBackward(operation, { qkv_NED, dqkv_NED, dy_NHD }, [n - pass.position(n), n]);
}

/** −log softmax(logits)[target], and its gradient. Both are made from the others' share, which has digits where 1 − p has none. */
function targetLoss(logits_V: Matrix, target: number): { readonly loss: number; readonly gradient_V: Matrix } {
  const most = logits_V.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const powers_V = logits_V.map((logit) => Math.exp(logit - most));
  const others = powers_V.reduce((sum, power, v) => (v === target ? sum : sum + power), 0);
  const sum = others + read(powers_V, target);
  const rest = most - read(logits_V, target);
  return {
    loss: rest > 0 ? rest + Math.log(sum) : Math.log1p(others),
    gradient_V: powers_V.map((power, v) => (v === target ? -others : power) / sum),
  };
}

/** Σ over rows of lossScale·(log Σ exp(logits) − logits[target]). */
function crossEntropy(operation: OperationOf<'crossEntropy'>, { activations, targets, lossScale }: Pass): number {
  const logits_NV = matrix(activations, operation.logits);
  const V = operation.vocabulary;
  let loss = 0;
  for (let n = 0; n < targets.length; n++)
    loss += lossScale * targetLoss(logits_NV.subarray(n * V, (n + 1) * V), at(targets, n)).loss;
  return loss;
}

function crossEntropyBackward(operation: OperationOf<'crossEntropy'>, pass: Pass, gradients: Gradients): void {
  const logits_NV = matrix(pass.activations, operation.logits);
  const V = operation.vocabulary;
  const dlogits_NV = gradient(gradients.activations, operation.logits, logits_NV.length);
  for (let n = 0; n < pass.targets.length; n++) {
    const { gradient_V } = targetLoss(logits_NV.subarray(n * V, (n + 1) * V), at(pass.targets, n));
    addScaled({ values: dlogits_NV, from: n * V }, pass.lossScale, { values: gradient_V, from: 0 }, V);
  }
}
