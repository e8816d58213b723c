/**
 * From the rows of a model to kernel calls: each operation's forward and backward over named buffers. The only
 * file that knows which kernels an operation is made of; a new family is new cases here and new rows there.
 *
 * N rows: the samples·T of a micro-batch, or those of them that the loss works on at once.
 */

import { swiGluBackward } from '../../../shaders/activation/swiGluBackward.ts';
import { swiGluForward } from '../../../shaders/activation/swiGluForward.ts';
import { columnSum } from '../../../shaders/arrays/columnSum.ts';
import { attentionBackwardKeyValue } from '../../../shaders/attention/attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from '../../../shaders/attention/attentionBackwardQuery.ts';
import { attentionForward } from '../../../shaders/attention/attentionForward.ts';
import { rotary } from '../../../shaders/attention/rotary.ts';
import { embedBackwardPosition } from '../../../shaders/embedding/embedBackwardPosition.ts';
import { embedBackwardToken } from '../../../shaders/embedding/embedBackwardToken.ts';
import { embedForward } from '../../../shaders/embedding/embedForward.ts';
import { embedTokens } from '../../../shaders/embedding/embedTokens.ts';
import { matmul } from '../../../shaders/family/matmul.ts';
import type { AdapterFamily, Dims } from '../../../shaders/kernel/kernel.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import { crossEntropy } from '../../../shaders/loss/crossEntropy.ts';
import { crossEntropyLoss } from '../../../shaders/loss/crossEntropyLoss.ts';
import { layerNormBackward } from '../../../shaders/norm/layerNormBackward.ts';
import { layerNormBackwardWeights } from '../../../shaders/norm/layerNormBackwardWeights.ts';
import { layerNormForward } from '../../../shaders/norm/layerNormForward.ts';
import { rmsNormBackward } from '../../../shaders/norm/rmsNormBackward.ts';
import { rmsNormBackwardWeights } from '../../../shaders/norm/rmsNormBackwardWeights.ts';
import { rmsNormForward } from '../../../shaders/norm/rmsNormForward.ts';
import { assertNever, invariant } from '../../../swarm/base.ts';
import { ROTARY } from '../../../swarm/memory/memory.ts';
import type { Operation } from '../../../swarm/model/model.ts';
import type { Step } from '../../../swarm/model/program.ts';
import { call, type KernelCall } from './kernelCall.ts';
import { weightGradient } from './weightGradient.ts';

/** Where the names of a program lie for one micro-batch size in one slot. */
export interface Places {
  readonly samples: number;
  readonly sequence: number;
  readonly rows: number;
  /** C: width of the stream, and of what is normalised. */
  readonly width: number;
  /** 1/(B·T) of the whole step: what each token's loss counts. */
  readonly lossScale: number;
  /** Of an activation or a weight. */
  readonly elementBytes: number;
  readonly family: AdapterFamily;
  /** An activation, a gradient or a by-product, by name. */
  readonly buffer: (name: string) => BufferSlice;
  /** A tensor, or the one matrix of several joined ones. */
  readonly value: (...tensors: readonly string[]) => BufferSlice;
  readonly gradient: (...tensors: readonly string[]) => BufferSlice;
}

type OperationOf<Op extends Operation['op']> = Extract<Operation, { op: Op }>;

function named(name: string | null): string {
  invariant(name, 'a row lacks an input that it needs');
  return name;
}

/** The forward of a row of the model's program. With `evaluation` the loss leaves no gradient. */
export function forward(step: Step, places: Places, evaluation: boolean): KernelCall[] {
  const { operation } = step;
  const { rows: N, sequence: T, width: C, lossScale, buffer, value } = places;
  const label = `${step.scope} ${operation.op}`;
  const x = (): BufferSlice => buffer(named(step.x));
  const y = (byproduct = ''): BufferSlice => buffer(named(step.y) + byproduct);
  switch (operation.op) {
    case 'embed': {
      const buffers = { ids_N: buffer('ids'), token_VC: value(operation.token), x_NC: y() };
      if (operation.position === null) return [call(embedTokens, buffers, { N, C }, label)];
      const position_TC = value(operation.position);
      return [call(embedForward, { ...buffers, position_TC }, { N, T, C }, label)];
    }
    case 'layerNorm': {
      const weights = { weight_C: value(operation.weight), bias_C: value(operation.bias) };
      const buffers = { x_NC: x(), ...weights, y_NC: y(), stat_N2: y('.stat') };
      return [call(layerNormForward, buffers, { N, C, epsilon: operation.epsilon }, label)];
    }
    case 'rmsNorm': {
      const buffers = { x_NC: x(), weight_C: value(operation.weight), y_NC: y(), stat_N: y('.stat') };
      return [call(rmsNormForward, buffers, { N, C, epsilon: operation.epsilon }, label)];
    }
    case 'linear':
      return [linearForward(step, operation, places)];
    case 'rotary':
      return [turn(operation, places, x(), { sign: 1, label })];
    case 'attention': {
      const buffers = { qkv_BTED: x(), y_BTHD: y(), lse_BHT: y('.lse') };
      return [call(attentionForward, buffers, attentionDims(operation, places), label)];
    }
    case 'swiGlu':
      return [call(swiGluForward, { x_N2I: x(), y_NI: y() }, { N, I: operation.innerWidth }, label)];
    case 'crossEntropy': {
      const buffers = { logits_NV: x(), targets_N: buffer('targets'), loss_N: buffer('loss') };
      const V = operation.vocabulary;
      return evaluation
        ? [call(crossEntropyLoss, buffers, { N, V }, label)]
        : [call(crossEntropy, buffers, { N, V, scale: lossScale }, label)];
    }
    default:
      return assertNever(operation);
  }
}

function linearForward(step: Step, linear: OperationOf<'linear'>, { rows, buffer, value }: Places): KernelCall {
  const y = named(step.y);
  const kernel = matmul({
    layout: linear.weightLayout === 'inOut' ? 'NN' : 'NT',
    epilogue: { bias: linear.bias !== null, gelu: linear.activation === 'gelu', residual: linear.residual !== null },
  });
  const buffers = {
    a: buffer(named(step.x)),
    b: value(...linear.weights),
    c_MN: buffer(y),
    ...(linear.bias === null ? {} : { bias_N: value(linear.bias) }),
    ...(linear.activation === 'gelu' ? { pre_MN: buffer(`${y}.pre`) } : {}),
    ...(step.residual === null ? {} : { residual_MN: buffer(step.residual) }),
  };
  const dims = { M: rows, N: linear.outWidth, K: linear.inWidth };
  return call(kernel, buffers, dims, `${step.scope} ${linear.weights.join(' ')}`);
}

const attentionDims = (
  { heads, keyValueHeads, headWidth }: OperationOf<'attention'>,
  { samples, sequence }: Places,
): Dims => ({ B: samples, T: sequence, H: heads, K: keyValueHeads, D: headWidth });

/** Turns the queries and keys of x, or turns their gradients back. */
function turn(
  { heads, keyValueHeads, headWidth: D }: OperationOf<'rotary'>,
  { rows, sequence, buffer }: Places,
  x_NS: BufferSlice,
  { sign, label }: { readonly sign: 1 | -1; readonly label: string },
): KernelCall {
  const dims = { N: rows, T: sequence, H: heads + keyValueHeads, D, S: (heads + 2 * keyValueHeads) * D, sign };
  return call(rotary, { table_TD: buffer(ROTARY), x_NS }, dims, label);
}

/** The backward of a row: gradients of its tensors (added), then of its input. The loss has none of its own. */
export function backward(step: Step, places: Places): KernelCall[] {
  const { operation } = step;
  const { rows: N, sequence: T, width: C, buffer, value, gradient } = places;
  const label = `${step.scope} d${operation.op}`;
  const x = (): BufferSlice => buffer(named(step.x));
  const y = (byproduct = ''): BufferSlice => buffer(named(step.y) + byproduct);
  const dx = (): BufferSlice => buffer(named(step.dx));
  const dy = (): BufferSlice => buffer(named(step.dy));
  const accumulate = step.accumulate ? 1 : 0;
  switch (operation.op) {
    case 'embed': {
      const dx_NC = dy();
      const sorted = { order_N: buffer('order'), segments: buffer('segments') };
      const tokens = { ...sorted, dx_NC, dtoken_VC: gradient(operation.token) };
      const calls = [call(embedBackwardToken, tokens, { N, C }, label)];
      if (operation.position === null) return calls;
      const positions = { dx_NC, dposition_TC: gradient(operation.position) };
      return [...calls, call(embedBackwardPosition, positions, { N, T, C }, label)];
    }
    case 'layerNorm': {
      const shared = { x_NC: x(), stat_N2: y('.stat'), dy_NC: dy() };
      const weights = { dweight_C: gradient(operation.weight), dbias_C: gradient(operation.bias) };
      const input = { weight_C: value(operation.weight), dx_NC: dx() };
      return [
        call(layerNormBackwardWeights, { ...shared, ...weights }, { N, C }, label),
        call(layerNormBackward, { ...shared, ...input }, { N, C, accumulate }, label),
      ];
    }
    case 'rmsNorm': {
      const shared = { x_NC: x(), stat_N: y('.stat'), dy_NC: dy() };
      const input = { weight_C: value(operation.weight), dx_NC: dx() };
      return [
        call(rmsNormBackwardWeights, { ...shared, dweight_C: gradient(operation.weight) }, { N, C }, label),
        call(rmsNormBackward, { ...shared, ...input }, { N, C, accumulate }, label),
      ];
    }
    case 'linear':
      return linearBackward(step, operation, places);
    case 'rotary':
      return [turn(operation, places, dx(), { sign: -1, label })];
    case 'attention': {
      const dims = attentionDims(operation, places);
      const shared = { qkv_BTED: x(), lse_BHT: y('.lse'), dy_BTHD: dy(), dqkv_BTED: dx() };
      const delta_BHT = buffer('attention.delta');
      // The queries' kernel writes delta, which the keys' kernel reads.
      return [
        call(attentionBackwardQuery, { ...shared, y_BTHD: y(), delta_BHT }, dims, label),
        call(attentionBackwardKeyValue, { ...shared, delta_BHT }, dims, label),
      ];
    }
    case 'swiGlu': {
      const buffers = { x_N2I: x(), dy_NI: dy(), dx_N2I: dx() };
      return [call(swiGluBackward, buffers, { N, I: operation.innerWidth }, label)];
    }
    case 'crossEntropy':
      return [];
    default:
      return assertNever(operation);
  }
}

function linearBackward(step: Step, linear: OperationOf<'linear'>, places: Places): KernelCall[] {
  const { rows, buffer, value, gradient } = places;
  const x = buffer(named(step.x));
  const dy = buffer(named(step.dy));
  const inOut = linear.weightLayout === 'inOut';
  const label = `${step.scope} d${linear.weights.join(' ')}`;
  // Where dy is the second factor its column sums, the bias gradient, are a by-product.
  const biasBeside = inOut && linear.bias !== null;
  const [inner, outer] = inOut ? [linear.inWidth, linear.outWidth] : [linear.outWidth, linear.inWidth];
  const calls = weightGradient(
    call(
      matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient: biasBeside } }),
      {
        a: inOut ? x : dy,
        b: inOut ? dy : x,
        c_MN: gradient(...linear.weights),
        ...(biasBeside && linear.bias !== null ? { dbias_N: gradient(linear.bias) } : {}),
      },
      { M: inner, N: outer, K: rows },
      label,
    ),
    step.accumulate ? null : { place: buffer(named(step.dx)), bytes: rows * linear.inWidth * places.elementBytes },
    places.family,
  );
  if (linear.bias !== null && !biasBeside) {
    const buffers = { dy_NC: dy, dbias_C: gradient(linear.bias) };
    calls.push(call(columnSum, buffers, { N: rows, C: linear.outWidth }, `${label} bias`));
  }
  const pre = step.xBeforeGelu;
  calls.push(
    call(
      matmul({
        layout: inOut ? 'NT' : 'NN',
        epilogue: { geluBackward: pre !== null, accumulate: step.accumulate },
      }),
      {
        a: dy,
        b: value(...linear.weights),
        c_MN: buffer(named(step.dx)),
        ...(pre === null ? {} : { pre_MN: buffer(pre) }),
      },
      { M: rows, N: linear.inWidth, K: linear.outWidth },
      label,
    ),
  );
  return calls;
}
