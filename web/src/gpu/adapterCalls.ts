/**
 * A linear row with an adapter as kernel calls. With h = x·Aᵀ [N, R] and the B's side by side in one matrix W' [Q, R], zero
 * where a part has no column (spreadPart.ts):
 *
 *   y += h·W'ᵀ          dW' = dyᵀ·h          dh = dy·W'          dA += dhᵀ·x          dx += dh·A
 *
 * so every product is one that the model has anyway, whatever the row's parts are; the scale is in W'. W' and dW' lie in room
 * that all rows share, one at a time. Where y or x goes through a GELU the products leave what is before it, which both the
 * row's own weights and the adapter add to, and the GELU has a kernel of its own.
 */
import { geluBackward } from '../../../shaders/activation/geluBackward.ts';
import { geluForward } from '../../../shaders/activation/geluForward.ts';
import { collectPart } from '../../../shaders/adapter/collectPart.ts';
import { spreadPart } from '../../../shaders/adapter/spreadPart.ts';
import { scaleRows } from '../../../shaders/arrays/scaleRows.ts';
import { matmul } from '../../../shaders/family/matmul.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import { invariant } from '../../../swarm/base.ts';
import { ADAPTER, PAIRS } from '../../../swarm/memory/adapterMemory.ts';
import type { LinearAdapter, Operation } from '../../../swarm/model/model.ts';
import { LOW_GRADIENT, lowWidth, type Step } from '../../../swarm/model/program.ts';
import { wholeWords } from './buffers.ts';
import { call, type KernelCall } from './kernelCall.ts';
import type { Places } from './places.ts';
import { inputGradient, weightGradient } from './slicedGradients.ts';

type Linear = Extract<Operation, { op: 'linear' }>;

/** A row that has an adapter, in its step. */
interface AdaptedRow {
  readonly step: Step;
  readonly linear: Linear;
  readonly adapter: LinearAdapter;
}

/** What the row is without its adapter: the calls of its own weights. */
type OwnCalls = (step: Step, linear: Linear) => KernelCall[];

function named(name: string | null): string {
  invariant(name, 'a row with an adapter has inputs and gradients');
  return name;
}

const labelOf = ({ step, adapter }: AdaptedRow, what = ''): string => `${step.scope} ${what}${adapter.a.join(' ')}`;

/** The B's side by side: a run of rows for each part, from the end of the one before to its own, the last to the end. */
function spread(row: AdaptedRow, { buffer, value, elementBytes }: Places): { calls: KernelCall[]; w: BufferSlice } {
  const { linear, adapter } = row;
  const { parts, rank, scale } = adapter;
  const R = lowWidth(linear);
  const whole = buffer(ADAPTER.b);
  const w = { ...whole, size: wholeWords(linear.outWidth * R * elementBytes) };
  let first = 0;
  const calls = parts.map(({ b, from, width, at }, index) => {
    const end = index === parts.length - 1 ? linear.outWidth : from + width;
    const dims = { first, rows: end - first, before: from - first, width, column: at, rank, R, scale };
    first = end;
    return call(spreadPart, { b_WR: value(b), w_QR: w }, dims, `${labelOf(row)} B ${index}`);
  });
  return { calls, w };
}

export function adaptedForward(row: AdaptedRow, places: Places, own: OwnCalls): KernelCall[] {
  const { step, linear, adapter } = row;
  const { rows: N, buffer, value, beta } = places;
  const { inWidth, outWidth, activation } = linear;
  const isGelu = activation === 'gelu';
  invariant(!(isGelu && step.residual), 'what went through a GELU has no residual');
  const y = named(step.y);
  const target = isGelu ? `${y}.pre` : y;
  const R = lowWidth(linear);
  const { calls, w } = spread(row, places);
  const [h, label] = [buffer(`${y}.low`), labelOf(row)];
  const few = places.fewRows && ({ fewRows: true } as const);
  return [
    ...own({ ...step, y: target }, { ...linear, activation: 'none' }),
    call(
      matmul({ layout: 'NT', ...few }),
      { a: buffer(named(step.x)), b: value(...adapter.a), c_MN: h },
      { M: N, N: R, K: inWidth },
      label,
    ),
    // Where h is 0 there is no adapter, and no gradient of one.
    ...(beta === undefined
      ? []
      : [call(scaleRows, { weight_N: buffer(PAIRS.adapted), x_NC: h }, { N, C: R }, `${label} pairs`)]),
    ...calls,
    call(
      matmul({ layout: 'NT', epilogue: { accumulate: true }, ...few }),
      { a: h, b: w, c_MN: buffer(target) },
      { M: N, N: outWidth, K: R },
      `${label} B`,
    ),
    ...(isGelu ? [call(geluForward, { x: buffer(target), y: buffer(y) }, { n: N * outWidth }, `${label} gelu`)] : []),
  ];
}

export function adaptedBackward(row: AdaptedRow, places: Places, own: OwnCalls): KernelCall[] {
  const { step, linear, adapter } = row;
  const { rows: N, buffer, value, gradient, elementBytes, family, gpuClass } = places;
  const { inWidth: P, outWidth: Q } = linear;
  const { parts, rank, scale } = adapter;
  const [x, dx, dy, h] = [buffer(named(step.x)), buffer(named(step.dx)), buffer(named(step.dy)), `${step.y}.low`];
  const [R, dh, label] = [lowWidth(linear), buffer(LOW_GRADIENT), labelOf(row, 'd')];
  const { calls, w } = spread(row, places);
  const dw = { ...buffer(ADAPTER.gradient), size: 4 * Q * R };
  const pre = step.xBeforeGelu;
  const gpu = { family, gpuClass };
  const ofInput = (): KernelCall[] => [
    ...own({ ...step, xBeforeGelu: null }, linear),
    call(
      matmul({ layout: 'NN', epilogue: { accumulate: true } }),
      { a: dh, b: value(...adapter.a), c_MN: dx },
      { M: N, N: P, K: R },
      `${label} x`,
    ),
    ...(pre === null ? [] : [call(geluBackward, { x: buffer(pre), dx }, { n: N * P }, `${label} gelu`)]),
  ];
  const dhProduct = call(matmul({ layout: 'NN' }), { a: dy, b: w, c_MN: dh }, { M: N, N: R, K: Q }, `${label} h`);
  return [
    call(matmul({ layout: 'TN' }), { a: dy, b: buffer(h), c_MN: dw }, { M: Q, N: R, K: N }, `${label} B`),
    ...parts.map(({ b, from, width, at }, index) =>
      call(
        collectPart,
        { dw_QR: dw, db_WR: gradient(b) },
        { first: from, width, column: at, rank, R, scale },
        `${label} B ${index}`,
      ),
    ),
    ...calls,
    // Over the vocabulary the sums are long and their rows few.
    ...inputGradient(dhProduct, {
      accumulate: false,
      room: step.y === step.dy ? places.unused : undefined,
      adapter: gpu,
    }),
    ...weightGradient(
      call(
        matmul({ layout: 'TN', epilogue: { accumulate: true } }),
        { a: dh, b: x, c_MN: gradient(...adapter.a) },
        { M: R, N: P, K: N },
        label,
      ),
      step.accumulate ? null : { place: dx, bytes: N * P * elementBytes },
      gpu,
    ),
    ...(step.hasTrainedBelow ? ofInput() : []),
  ];
}
