/**
 * From the rows of a model to dispatches: each operation's forward and backward as kernels over named buffers. The only
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
import type { AdapterFamily, Dims, Kernel } from '../../../shaders/kernel.ts';
import type { BufferSlice } from '../../../shaders/launch.ts';
import { crossEntropy } from '../../../shaders/loss/crossEntropy.ts';
import { crossEntropyLoss } from '../../../shaders/loss/crossEntropyLoss.ts';
import { matmul } from '../../../shaders/matmul.ts';
import { layerNormBackward } from '../../../shaders/norm/layerNormBackward.ts';
import { layerNormBackwardWeights } from '../../../shaders/norm/layerNormBackwardWeights.ts';
import { layerNormForward } from '../../../shaders/norm/layerNormForward.ts';
import { rmsNormBackward } from '../../../shaders/norm/rmsNormBackward.ts';
import { rmsNormBackwardWeights } from '../../../shaders/norm/rmsNormBackwardWeights.ts';
import { rmsNormForward } from '../../../shaders/norm/rmsNormForward.ts';
import { assertNever, invariant } from '../../../swarm/base.ts';
import type { Operation } from '../../../swarm/model/model.ts';
import type { Step } from '../../../swarm/model/program.ts';
import { ROTARY } from '../../../swarm/plan/memory.ts';
import type { Dispatch } from './dispatch.ts';
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

type Row<Op extends Operation['op']> = Extract<Operation, { op: Op }>;

function named(name: string | null): string {
  invariant(name, 'a row lacks an input that it needs');
  return name;
}

/** The dispatches of a row's forward. With `evaluation` the loss leaves no gradient. */
export function forward(step: Step, places: Places, evaluation: boolean): Dispatch[] {
  const { operation } = step;
  const { rows: N, sequence, width: C, lossScale, buffer, value } = places;
  const label = `${step.scope} ${operation.op}`;
  switch (operation.op) {
    case 'embed': {
      const buffers = { ids: buffer('ids'), token: value(operation.token), x: buffer(named(step.y)) };
      if (operation.position === null) return [{ kernel: embedTokens, buffers, dims: { N, C }, label }];
      const position = value(operation.position);
      return [{ kernel: embedForward, buffers: { ...buffers, position }, dims: { N, T: sequence, C }, label }];
    }
    case 'layerNorm': {
      const y = named(step.y);
      const buffers = {
        x: buffer(named(step.x)),
        weight: value(operation.weight),
        bias: value(operation.bias),
        y: buffer(y),
        stat: buffer(`${y}.stat`),
      };
      return [{ kernel: layerNormForward, buffers, dims: { N, C, epsilon: operation.epsilon }, label }];
    }
    case 'rmsNorm': {
      const y = named(step.y);
      const buffers = {
        x: buffer(named(step.x)),
        weight: value(operation.weight),
        y: buffer(y),
        stat: buffer(`${y}.stat`),
      };
      return [{ kernel: rmsNormForward, buffers, dims: { N, C, epsilon: operation.epsilon }, label }];
    }
    case 'linear':
      return [linearForward(step, operation, places)];
    case 'rotary':
      return [turn(operation, places, buffer(named(step.x)), { sign: 1, label })];
    case 'attention': {
      const y = named(step.y);
      const buffers = { qkv: buffer(named(step.x)), y: buffer(y), lse: buffer(`${y}.lse`) };
      const dims = attentionDims(operation, places);
      return [{ kernel: attentionForward, buffers, dims, label }];
    }
    case 'swiGlu': {
      const buffers = { x: buffer(named(step.x)), y: buffer(named(step.y)) };
      return [{ kernel: swiGluForward, buffers, dims: { N, I: operation.innerWidth }, label }];
    }
    case 'crossEntropy': {
      const buffers = { logits: buffer(named(step.x)), targets: buffer('targets'), loss: buffer('loss') };
      const V = operation.vocabulary;
      return evaluation
        ? [{ kernel: crossEntropyLoss, buffers, dims: { N, V }, label }]
        : [{ kernel: crossEntropy, buffers, dims: { N, V, scale: lossScale }, label }];
    }
    default:
      return assertNever(operation);
  }
}

function linearForward(step: Step, row: Row<'linear'>, { rows, buffer, value }: Places): Dispatch {
  const y = named(step.y);
  const kernel = matmul({
    layout: row.weightLayout === 'inOut' ? 'NN' : 'NT',
    epilogue: { bias: row.bias !== null, gelu: row.activation === 'gelu', residual: row.residual !== null },
  });
  return {
    kernel,
    buffers: {
      a: buffer(named(step.x)),
      b: value(...row.weights),
      c: buffer(y),
      ...(row.bias === null ? {} : { bias: value(row.bias) }),
      ...(row.activation === 'gelu' ? { pre: buffer(`${y}.pre`) } : {}),
      ...(step.residual === null ? {} : { residual: buffer(step.residual) }),
    },
    dims: { M: rows, N: row.outWidth, K: row.inWidth },
    label: `${step.scope} ${row.weights.join(' ')}`,
  };
}

const attentionDims = ({ heads, keyValueHeads, headWidth }: Row<'attention'>, { samples, sequence }: Places): Dims => ({
  B: samples,
  T: sequence,
  H: heads,
  K: keyValueHeads,
  D: headWidth,
});

/** Turns the queries and keys of x, or turns their gradients back. */
function turn(
  { heads, keyValueHeads, headWidth: D }: Row<'rotary'>,
  { rows, sequence, buffer }: Places,
  x: BufferSlice,
  { sign, label }: { readonly sign: 1 | -1; readonly label: string },
): Dispatch {
  const dims = { N: rows, T: sequence, H: heads + keyValueHeads, D };
  return {
    kernel: rotary,
    buffers: { table: buffer(ROTARY), x },
    dims: { ...dims, S: (heads + 2 * keyValueHeads) * D, sign },
    label,
  };
}

/** The dispatches of a row's backward: gradients of its tensors (added), then of its input. The loss has none of its own. */
export function backward(step: Step, places: Places): Dispatch[] {
  const { operation } = step;
  const { rows: N, sequence, width: C, buffer, value, gradient } = places;
  const label = `${step.scope} d${operation.op}`;
  switch (operation.op) {
    case 'embed': {
      const dx = buffer(named(step.dy));
      const buffers = {
        order: buffer('order'),
        segments: buffer('segments'),
        dx,
        dtoken: gradient(operation.token),
      };
      const tokens: Dispatch = { kernel: embedBackwardToken, buffers, dims: { N, C }, label };
      if (operation.position === null) return [tokens];
      return [
        tokens,
        {
          kernel: embedBackwardPosition,
          buffers: { dx, dposition: gradient(operation.position) },
          dims: { N, T: sequence, C },
          label,
        },
      ];
    }
    case 'layerNorm': {
      const shared = {
        x: buffer(named(step.x)),
        stat: buffer(`${named(step.y)}.stat`),
        dy: buffer(named(step.dy)),
      };
      return [
        {
          kernel: layerNormBackwardWeights,
          buffers: { ...shared, dweight: gradient(operation.weight), dbias: gradient(operation.bias) },
          dims: { N, C },
          label,
        },
        {
          kernel: layerNormBackward,
          buffers: { ...shared, weight: value(operation.weight), dx: buffer(named(step.dx)) },
          dims: { N, C, accumulate: step.accumulate ? 1 : 0 },
          label,
        },
      ];
    }
    case 'rmsNorm': {
      const shared = {
        x: buffer(named(step.x)),
        stat: buffer(`${named(step.y)}.stat`),
        dy: buffer(named(step.dy)),
      };
      return [
        {
          kernel: rmsNormBackwardWeights,
          buffers: { ...shared, dweight: gradient(operation.weight) },
          dims: { N, C },
          label,
        },
        {
          kernel: rmsNormBackward,
          buffers: { ...shared, weight: value(operation.weight), dx: buffer(named(step.dx)) },
          dims: { N, C, accumulate: step.accumulate ? 1 : 0 },
          label,
        },
      ];
    }
    case 'linear':
      return linearBackward(step, operation, places);
    case 'rotary':
      return [turn(operation, places, buffer(named(step.dx)), { sign: -1, label })];
    case 'attention': {
      const y = named(step.y);
      const dims = attentionDims(operation, places);
      const buffers = {
        qkv: buffer(named(step.x)),
        y: buffer(y),
        lse: buffer(`${y}.lse`),
        dy: buffer(named(step.dy)),
        dqkv: buffer(named(step.dx)),
        delta: buffer('attention.delta'),
      };
      // The queries' kernel writes delta, which the keys' kernel reads.
      return [attentionBackwardQuery, attentionBackwardKeyValue].map(
        (kernel): Dispatch => ({ kernel, buffers: pick(kernel, buffers), dims, label }),
      );
    }
    case 'swiGlu': {
      const buffers = { x: buffer(named(step.x)), dy: buffer(named(step.dy)), dx: buffer(named(step.dx)) };
      return [{ kernel: swiGluBackward, buffers, dims: { N, I: operation.innerWidth }, label }];
    }
    case 'crossEntropy':
      return [];
    default:
      return assertNever(operation);
  }
}

function linearBackward(step: Step, row: Row<'linear'>, places: Places): Dispatch[] {
  const { rows, buffer, value, gradient } = places;
  const x = buffer(named(step.x));
  const dy = buffer(named(step.dy));
  const inOut = row.weightLayout === 'inOut';
  const label = `${step.scope} d${row.weights.join(' ')}`;
  // Where dy is the second factor its column sums, the bias gradient, are a by-product.
  const biasBeside = inOut && row.bias !== null;
  const [inner, outer] = inOut ? [row.inWidth, row.outWidth] : [row.outWidth, row.inWidth];
  const dispatches = weightGradient(
    {
      kernel: matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient: biasBeside } }),
      buffers: {
        a: inOut ? x : dy,
        b: inOut ? dy : x,
        c: gradient(...row.weights),
        ...(biasBeside && row.bias !== null ? { biasGradient: gradient(row.bias) } : {}),
      },
      dims: { M: inner, N: outer, K: rows },
      label,
    },
    step.accumulate ? null : { place: buffer(named(step.dx)), bytes: rows * row.inWidth * places.elementBytes },
    places.family,
  );
  if (row.bias !== null && !biasBeside) {
    const buffers = { dy, dbias: gradient(row.bias) };
    dispatches.push({ kernel: columnSum, buffers, dims: { N: rows, C: row.outWidth }, label: `${label} bias` });
  }
  const pre = step.xBeforeGelu;
  dispatches.push({
    kernel: matmul({
      layout: inOut ? 'NT' : 'NN',
      epilogue: { geluBackward: pre !== null, accumulate: step.accumulate },
    }),
    buffers: {
      a: dy,
      b: value(...row.weights),
      c: buffer(named(step.dx)),
      ...(pre === null ? {} : { pre: buffer(pre) }),
    },
    dims: { M: rows, N: row.inWidth, K: row.outWidth },
    label,
  });
  return dispatches;
}

/** The buffers that a kernel's table names. */
function pick(kernel: Kernel, buffers: Readonly<Record<string, BufferSlice>>): Record<string, BufferSlice> {
  return Object.fromEntries(
    kernel.tensors.map(({ name }) => {
      const slice = buffers[name];
      invariant(slice, `${kernel.name} needs ${name}`);
      return [name, slice];
    }),
  );
}
