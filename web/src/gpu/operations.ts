/**
 * From the rows of a model to kernel calls: each operation's forward and backward over named buffers. The only
 * file that knows which kernels an operation is made of; a new family is new cases here and new rows there.
 *
 * N rows: the samples·T of a micro-batch, or those of them that the loss works on at once.
 */

import { geGluBackward, swiGluBackward } from '../../../shaders/activation/gatedBackward.ts';
import { geGluForward, swiGluForward } from '../../../shaders/activation/gatedForward.ts';
import { columnSum } from '../../../shaders/arrays/columnSum.ts';
import { attentionBackwardKeyValue } from '../../../shaders/attention/attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from '../../../shaders/attention/attentionBackwardQuery.ts';
import { attentionForward } from '../../../shaders/attention/attentionForward.ts';
import { rotary } from '../../../shaders/attention/rotary.ts';
import { embedBackwardToken } from '../../../shaders/embedding/embedBackwardToken.ts';
import { embedForward } from '../../../shaders/embedding/embedForward.ts';
import { embedTokens } from '../../../shaders/embedding/embedTokens.ts';
import { matmul } from '../../../shaders/family/matmul.ts';
import type { Dims } from '../../../shaders/kernel/kernel.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import { crossEntropy } from '../../../shaders/loss/crossEntropy.ts';
import { crossEntropyLoss } from '../../../shaders/loss/crossEntropyLoss.ts';
import { headNormBackward } from '../../../shaders/norm/headNormBackward.ts';
import { headNormBackwardWeights } from '../../../shaders/norm/headNormBackwardWeights.ts';
import { headNormForward } from '../../../shaders/norm/headNormForward.ts';
import { layerNormBackward } from '../../../shaders/norm/layerNormBackward.ts';
import { layerNormBackwardWeights } from '../../../shaders/norm/layerNormBackwardWeights.ts';
import { layerNormForward } from '../../../shaders/norm/layerNormForward.ts';
import { rmsNormBackward } from '../../../shaders/norm/rmsNormBackward.ts';
import { rmsNormBackwardWeights } from '../../../shaders/norm/rmsNormBackwardWeights.ts';
import { rmsNormAdd, rmsNormForward } from '../../../shaders/norm/rmsNormForward.ts';
import { assertNever, invariant } from '../../../swarm/base.ts';
import { BY_POSITION, BY_TOKEN, firstKeysName, isCutByRows, PIECE_ROWS } from '../../../swarm/memory/memory.ts';
import { packedFloats } from '../../../swarm/model/layout.ts';
import type { Operation } from '../../../swarm/model/model.ts';
import type { Step } from '../../../swarm/model/program.ts';
import { adaptedBackward, adaptedForward } from './adapterCalls.ts';
import { wholeWords } from './buffers.ts';
import { call, type KernelCall } from './kernelCall.ts';
import type { Places } from './places.ts';
import { inputGradient, weightGradient } from './slicedGradients.ts';

type OperationOf<Op extends Operation['op']> = Extract<Operation, { op: Op }>;

function named(name: string | null): string {
  invariant(name, 'a row lacks an input that it needs');
  return name;
}

/**
 * Rows of a table, or of the vocabulary. A table that a device cannot bind all at once is cut into pieces of whole rows:
 * each has kernels of its own, over the same buffers. Where it fits there is one piece, the whole.
 */
interface TablePiece {
  readonly first: number;
  readonly rows: number;
}

/** Of `rows` rows of so many floats, as their gradients are: about equal ones, each but the last of whole PIECE_ROWS. */
export function tablePieces(rows: number, width: number, bindingBytes: number): TablePiece[] {
  const most = Math.max(1, Math.floor(bindingBytes / (4 * width * PIECE_ROWS))) * PIECE_ROWS;
  const count = Math.ceil(rows / most);
  const each = count === 1 ? rows : Math.ceil(rows / count / PIECE_ROWS) * PIECE_ROWS;
  const pieces: TablePiece[] = [];
  for (let first = 0; first < rows; first += each) pieces.push({ first, rows: Math.min(each, rows - first) });
  return pieces;
}

/** From `bytes` of a slice on, so many; null: to its end. */
const partOf = (slice: BufferSlice, bytes: number, size: number | null): BufferSlice => ({
  ...slice,
  offset: (slice.offset ?? 0) + bytes,
  ...(size !== null ? { size } : slice.size !== undefined && { size: slice.size - bytes }),
});

/** The forward of a row of the model's program. With `evaluation` the loss leaves no gradient. */
export function forward(step: Step, places: Places, evaluation: boolean): KernelCall[] {
  const { operation } = step;
  const { rows: N, sequence: T, width: C, lossScale, buffer, value } = places;
  const label = `${step.scope} ${operation.op}`;
  const x = (): BufferSlice => buffer(named(step.x));
  const y = (byproduct = ''): BufferSlice => buffer(named(step.y) + byproduct);
  switch (operation.op) {
    case 'embed': {
      const position_TC = operation.position === null ? null : value(operation.position);
      const whole = { ids_N: buffer('ids'), token_VC: value(operation.token), x_NC: y() };
      return tablePieces(places.vocabulary, C, places.bindingBytes).map((piece) => {
        const buffers = { ...whole, token_VC: rowsOf(whole.token_VC, piece, C, places.elementBytes) };
        const dims = { N, C, F: piece.first, R: piece.rows };
        const name = label + nameOf(piece);
        if (position_TC === null) return call(embedTokens, buffers, { ...dims, scale: operation.scale }, name);
        const placed = { ...buffers, first_N: buffer(firstKeysName(null)), position_TC };
        return call(embedForward, placed, { ...dims, T }, name);
      });
    }
    case 'layerNorm':
    case 'rmsNorm':
    case 'headNorm':
      return [normForward(step, operation, places)];
    case 'linear':
      return linearForward(step, operation, places);
    case 'rotary':
      return [turn(operation, places, x(), { sign: 1, label })];
    case 'attention': {
      const buffers = { qkv_BTED: x(), first_BT: firstKeysOf(operation, places), y_BTHD: y(), lse_BHT: y('.lse') };
      return [call(attentionForward, buffers, attentionDims(operation, places), label)];
    }
    case 'gated': {
      const kernel = operation.activation === 'silu' ? swiGluForward : geGluForward;
      return [call(kernel, { x_N2I: x(), y_NI: y() }, { N, I: operation.innerWidth }, label)];
    }
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

type Norm = OperationOf<'layerNorm' | 'rmsNorm' | 'headNorm'>;

function normForward(step: Step, norm: Norm, { rows: N, width: C, buffer, value }: Places): KernelCall {
  const label = `${step.scope} ${norm.op}`;
  const { epsilon } = norm;
  const [x, y, stat] = [buffer(named(step.x)), buffer(named(step.y)), buffer(`${named(step.y)}.stat`)];
  switch (norm.op) {
    case 'layerNorm': {
      const weights = { weight_C: value(norm.weight), bias_C: value(norm.bias) };
      return call(layerNormForward, { x_NC: x, ...weights, y_NC: y, stat_N2: stat }, { N, C, epsilon }, label);
    }
    case 'rmsNorm': {
      const buffers = { x_NC: x, weight_C: value(norm.weight), y_NC: y, stat_N: stat };
      const dims = { N, C, epsilon, offset: norm.offset };
      if (step.residual === null) return call(rmsNormForward, buffers, dims, label);
      return call(rmsNormAdd, { ...buffers, residual_NC: buffer(step.residual) }, dims, label);
    }
    case 'headNorm': {
      const buffers = { x_NED: x, weight_2D: value(...norm.weights), y_NED: y, stat_NG: stat };
      return call(
        headNormForward,
        buffers,
        { N, ...headsOf(norm), D: norm.headWidth, epsilon, offset: norm.offset },
        label,
      );
    }
  }
}

function normBackward(step: Step, norm: Norm, places: Places): KernelCall[] {
  const { rows: N, width: C, buffer, value, gradient, stands } = places;
  const label = `${step.scope} d${norm.op}`;
  const [x, stat] = [buffer(named(step.x)), buffer(`${named(step.y)}.stat`)];
  const [dx, dy] = [buffer(named(step.dx)), buffer(named(step.dy))];
  const accumulate = step.accumulate ? 1 : 0;
  switch (norm.op) {
    case 'layerNorm': {
      const shared = { x_NC: x, stat_N2: stat, dy_NC: dy };
      const own = { ...shared, weight_C: value(norm.weight), dx_NC: dx };
      const input = call(layerNormBackward, own, { N, C, accumulate }, label);
      if (stands) return [input];
      const weights = { dweight_C: gradient(norm.weight), dbias_C: gradient(norm.bias) };
      return [call(layerNormBackwardWeights, { ...shared, ...weights }, { N, C }, label), input];
    }
    case 'rmsNorm': {
      const shared = { x_NC: x, stat_N: stat, dy_NC: dy };
      const dims = { N, C, offset: norm.offset, accumulate };
      const input = call(rmsNormBackward, { ...shared, weight_C: value(norm.weight), dx_NC: dx }, dims, label);
      if (stands) return [input];
      return [call(rmsNormBackwardWeights, { ...shared, dweight_C: gradient(norm.weight) }, { N, C }, label), input];
    }
    case 'headNorm': {
      const shared = { x_NED: x, stat_NG: stat, dy_NED: dy };
      const D = norm.headWidth;
      const dims = { N, ...headsOf(norm), D, offset: norm.offset };
      const input = call(headNormBackward, { ...shared, weight_2D: value(...norm.weights), dx_NED: dx }, dims, label);
      if (stands) return [input];
      const weights = { ...shared, dweight_2D: gradient(...norm.weights) };
      return [call(headNormBackwardWeights, weights, { N, ...headsOf(norm), C: 2 * D }, label), input];
    }
  }
}

/** Rows of a table, of so many elements each, of which one takes so many bytes where it is not packed. */
function rowsOf(table: BufferSlice, { first, rows }: TablePiece, width: number, elementBytes: number): BufferSlice {
  const { packed } = table;
  const bytes = (count: number): number =>
    packed ? 4 * packedFloats(count * width, packed) : count * width * elementBytes;
  return partOf(table, bytes(first), wholeWords(bytes(rows)));
}
/** Of a piece that is not the whole, in labels. */
const nameOf = ({ first }: TablePiece): string => (first === 0 ? '' : ` from ${first}`);

/** Of a weight whose rows are bound a piece at a time; null: it is bound whole. */
function piecesOf(linear: OperationOf<'linear'>, { bindingBytes }: Places): TablePiece[] | null {
  const pieces = isCutByRows(linear) ? tablePieces(linear.outWidth, linear.inWidth, bindingBytes) : [];
  return pieces.length > 1 ? pieces : null;
}

function linearForward(step: Step, linear: OperationOf<'linear'>, places: Places): KernelCall[] {
  const { adapter } = linear;
  if (!adapter) return ownForward(step, linear, places);
  return adaptedForward({ step, linear, adapter }, places, (...own) => ownForward(...own, places));
}

/** Of its own weights. */
function ownForward(step: Step, linear: OperationOf<'linear'>, places: Places): KernelCall[] {
  const { rows, elementBytes, buffer, value } = places;
  const y = named(step.y);
  const pieces = piecesOf(linear, places);
  if (pieces !== null) {
    const [a, b, c] = [buffer(named(step.x)), value(...linear.weights), buffer(y)];
    return pieces.map((piece) =>
      call(
        matmul({ layout: 'NT', ofWider: true }),
        { a, b: rowsOf(b, piece, linear.inWidth, elementBytes), c_MN: partOf(c, piece.first * elementBytes, null) },
        { M: rows, N: piece.rows, K: linear.inWidth, P: linear.outWidth },
        `${step.scope} ${linear.weights.join(' ')}${nameOf(piece)}`,
      ),
    );
  }
  const kernel = matmul({
    layout: linear.weightLayout === 'inOut' ? 'NN' : 'NT',
    epilogue: {
      bias: linear.biases.length > 0,
      gelu: linear.activation === 'gelu',
      residual: linear.residual !== null,
    },
    ...(places.fewRows && { fewRows: true }),
  });
  const buffers = {
    a: buffer(named(step.x)),
    b: value(...linear.weights),
    c_MN: buffer(y),
    ...(linear.biases.length > 0 && { bias_N: value(...linear.biases) }),
    ...(linear.activation === 'gelu' ? { pre_MN: buffer(`${y}.pre`) } : {}),
    ...(step.residual === null ? {} : { residual_MN: buffer(step.residual) }),
  };
  const dims = { M: rows, N: linear.outWidth, K: linear.inWidth };
  return [call(kernel, buffers, dims, `${step.scope} ${linear.weights.join(' ')}`)];
}

const headsOf = ({ heads, keyValueHeads }: OperationOf<'headNorm' | 'attention'>) => ({ H: heads, K: keyValueHeads });

const attentionDims = (attention: OperationOf<'attention'>, { samples, sequence }: Places): Dims => ({
  ...{ B: samples, T: sequence, ...headsOf(attention), D: attention.headWidth, scale: attention.scale },
  ...(attention.window !== null && { W: attention.window }),
});
const firstKeysOf = ({ window }: OperationOf<'attention'>, { buffer }: Places): BufferSlice =>
  buffer(firstKeysName(window));

/** Turns the queries and keys of x, or turns their gradients back. */
function turn(
  { heads, keyValueHeads, headWidth: D, turns }: OperationOf<'rotary'>,
  { rows, sequence, buffer }: Places,
  x_NS: BufferSlice,
  { sign, label }: { readonly sign: 1 | -1; readonly label: string },
): KernelCall {
  const dims = { N: rows, T: sequence, H: heads + keyValueHeads, D, S: (heads + 2 * keyValueHeads) * D, sign };
  return call(rotary, { table_TD: buffer(turns.name), first_N: buffer(firstKeysName(null)), x_NS }, dims, label);
}

/**
 * The backward of a row: gradients of its tensors (added), then of its input, where anybody reads that. The loss has none of
 * its own.
 */
export function backward(step: Step, places: Places): KernelCall[] {
  const { operation } = step;
  if (places.stands && !step.hasTrainedBelow && !isTrained(operation)) return [];
  const { rows: N, buffer } = places;
  const label = `${step.scope} d${operation.op}`;
  const x = (): BufferSlice => buffer(named(step.x));
  const y = (byproduct = ''): BufferSlice => buffer(named(step.y) + byproduct);
  const dx = (): BufferSlice => buffer(named(step.dx));
  const dy = (): BufferSlice => buffer(named(step.dy));
  switch (operation.op) {
    case 'embed':
      return embedBackward(dy(), operation, places, label);
    case 'layerNorm':
    case 'rmsNorm':
    case 'headNorm':
      return normBackward(step, operation, places);
    case 'linear':
      return linearBackward(step, operation, places);
    case 'rotary':
      return [turn(operation, places, dx(), { sign: -1, label })];
    case 'attention': {
      const dims = attentionDims(operation, places);
      const first_BT = firstKeysOf(operation, places);
      const shared = { qkv_BTED: x(), first_BT, lse_BHT: y('.lse'), dy_BTHD: dy(), dqkv_BTED: dx() };
      const delta_BHT = buffer('attention.delta');
      // The queries' kernel writes delta, which the keys' kernel reads.
      return [
        call(attentionBackwardQuery, { ...shared, y_BTHD: y(), delta_BHT }, dims, label),
        call(attentionBackwardKeyValue, { ...shared, delta_BHT }, dims, label),
      ];
    }
    case 'gated': {
      const kernel = operation.activation === 'silu' ? swiGluBackward : geGluBackward;
      const buffers = { x_N2I: x(), dy_NI: dy(), dx_N2I: dx() };
      return [call(kernel, buffers, { N, I: operation.innerWidth }, label)];
    }
    case 'crossEntropy':
      return [];
    default:
      return assertNever(operation);
  }
}

/** Of a model whose own weights stand. */
const isTrained = (operation: Operation): boolean => operation.op === 'linear' && operation.adapter !== undefined;

function embedBackward(dx_NC: BufferSlice, embed: OperationOf<'embed'>, places: Places, label: string): KernelCall[] {
  const { rows: N, sequence: T, width: C, buffer, gradient } = places;
  const sorted = ({ order, segments }: typeof BY_TOKEN | typeof BY_POSITION) => ({
    ...{ order_N: buffer(order), segments: buffer(segments), dx_NC },
  });
  const table = gradient(embed.token);
  const dims = { N, C, scale: embed.scale };
  const calls = tablePieces(places.vocabulary, C, places.bindingBytes).map((piece) => {
    const tokens = { ...sorted(BY_TOKEN), dtoken_VC: rowsOf(table, piece, C, 4) };
    return call(embedBackwardToken, tokens, { ...dims, F: piece.first, R: piece.rows }, label + nameOf(piece));
  });
  if (embed.position === null) return calls;
  const positions = { ...sorted(BY_POSITION), dtoken_VC: gradient(embed.position) };
  return [...calls, call(embedBackwardToken, positions, { ...dims, scale: 1, F: 0, R: T }, `${label} positions`)];
}

function linearBackward(step: Step, linear: OperationOf<'linear'>, places: Places): KernelCall[] {
  const { adapter } = linear;
  if (!adapter) return ownBackward(step, linear, places);
  return adaptedBackward({ step, linear, adapter }, places, (...own) => ownBackward(...own, places));
}

/** Of its own weights: their gradients, where they do not stand, and what they make of the input's. */
function ownBackward(step: Step, linear: OperationOf<'linear'>, places: Places): KernelCall[] {
  const { rows, buffer, value, stands } = places;
  const label = `${step.scope} d${linear.weights.join(' ')}`;
  const pieces = piecesOf(linear, places);
  if (pieces !== null) return pieces.flatMap((piece) => pieceBackward(step, linear, places, piece));
  const pre = step.xBeforeGelu;
  const input = call(
    matmul({
      layout: linear.weightLayout === 'inOut' ? 'NT' : 'NN',
      epilogue: { geluBackward: pre !== null, accumulate: step.accumulate },
    }),
    {
      a: buffer(named(step.dy)),
      b: value(...linear.weights),
      c_MN: buffer(named(step.dx)),
      ...(pre === null ? {} : { pre_MN: buffer(pre) }),
    },
    { M: rows, N: linear.inWidth, K: linear.outWidth },
    label,
  );
  return [
    ...(stands ? [] : ownGradients(step, linear, places, label)),
    ...(isOfLoss(step) ? inputGradient(input, sliced(places, step.accumulate)) : [input]),
  ];
}

function ownGradients(step: Step, linear: OperationOf<'linear'>, places: Places, label: string): KernelCall[] {
  const { rows, buffer, gradient } = places;
  const x = buffer(named(step.x));
  const dy = buffer(named(step.dy));
  const inOut = linear.weightLayout === 'inOut';
  // Where dy is the second factor its column sums, the bias gradient, are a by-product.
  const hasBias = linear.biases.length > 0;
  const biasBeside = inOut && hasBias;
  const [inner, outer] = inOut ? [linear.inWidth, linear.outWidth] : [linear.outWidth, linear.inWidth];
  const calls = weightGradient(
    call(
      matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient: biasBeside } }),
      {
        a: inOut ? x : dy,
        b: inOut ? dy : x,
        c_MN: gradient(...linear.weights),
        ...(biasBeside && { dbias_N: gradient(...linear.biases) }),
      },
      { M: inner, N: outer, K: rows },
      label,
    ),
    step.accumulate ? null : { place: buffer(named(step.dx)), bytes: rows * linear.inWidth * places.elementBytes },
    adapterOf(places),
  );
  if (hasBias && !biasBeside) {
    const buffers = { dy_NC: dy, dbias_C: gradient(...linear.biases) };
    calls.push(call(columnSum, buffers, { N: rows, C: linear.outWidth }, `${label} bias`));
  }
  return calls;
}

const adapterOf = ({ family, gpuClass }: Places) => ({ family, gpuClass });
const sliced = (places: Places, accumulate: boolean) => ({
  accumulate,
  room: places.unused,
  adapter: adapterOf(places),
});

/** The product that makes logits: its rows are few, and it sums over the vocabulary. */
const isOfLoss = ({ y, dy }: Step): boolean => y !== null && y === dy;

/** The same of some rows of the weight: their gradient, and what they add to that of the input. */
function pieceBackward(step: Step, linear: OperationOf<'linear'>, places: Places, piece: TablePiece): KernelCall[] {
  const { rows, elementBytes, buffer, value, gradient, stands } = places;
  const { inWidth, outWidth } = linear;
  const label = `${step.scope} d${linear.weights.join(' ')}${nameOf(piece)}`;
  const dy = partOf(buffer(named(step.dy)), piece.first * elementBytes, null);
  const accumulate = step.accumulate || piece.first > 0;
  const weight = (): KernelCall =>
    call(
      matmul({ layout: 'TN', epilogue: { accumulate: true }, ofWider: true }),
      { a: dy, b: buffer(named(step.x)), c_MN: rowsOf(gradient(...linear.weights), piece, inWidth, 4) },
      { M: piece.rows, N: inWidth, K: rows, P: outWidth },
      label,
    );
  const input = call(
    matmul({ layout: 'NN', epilogue: { accumulate }, ofWider: true }),
    { a: dy, b: rowsOf(value(...linear.weights), piece, inWidth, elementBytes), c_MN: buffer(named(step.dx)) },
    { M: rows, N: inWidth, K: piece.rows, P: outWidth },
    label,
  );
  return [
    ...(stands ? [] : [weight()]),
    ...(isOfLoss(step) ? inputGradient(input, sliced(places, accumulate)) : [input]),
  ];
}
