/**
 * The calls that update the matrices of a shard by Muon, one matrix after the other in one room. The products are those of
 * the stage in float32, always over the same buffers from their start: a matrix gets the same bits in whoever's shard it is.
 */

import { matmul } from '../../../shaders/family/matmul.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import { inHalves } from '../../../shaders/kernel/inHalves.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import { muonApply, muonApplyShadow, muonBegin, muonPolynomial, muonStart } from '../../../shaders/update/muon.ts';
import { sumSquares } from '../../../shaders/update/sumSquares.ts';
import { MUON } from '../../../swarm/memory/memory.ts';
import { matricesOf, type WholeMatrix } from '../../../swarm/model/matrices.ts';
import type { TensorSpec } from '../../../swarm/model/model.ts';
import { muonScale, ORTHOGONAL_STEPS, sidesOf } from '../../../swarm/reference/muon.ts';
import type { BufferSet } from './buffers.ts';
import type { Gpu } from './device.ts';
import { call, type KernelCall } from './kernelCall.ts';
import { windowOf } from './windows.ts';

/** A buffer, and where in it a tensor begins. */
interface Begins {
  readonly buffer: GPUBuffer;
  readonly at: number;
}

/** Where a tensor lies whole; `shadow`: the halves of a stage, written beside the master. */
export interface WholeTensor {
  readonly tensor: TensorSpec;
  readonly values: Begins;
  readonly sum: Begins;
  readonly m: Begins;
  readonly shadow: Begins | null;
}

interface MuonParts {
  readonly gpu: Gpu;
  readonly buffers: Pick<BufferSet, 'get'>;
  readonly momentum: number;
  readonly label: string;
}

export const muonCalls = (parts: MuonParts, tensors: readonly WholeTensor[]): KernelCall[] =>
  tensors.flatMap((whole) => matricesOf(whole.tensor).flatMap((matrix) => matrixCalls(parts, whole, matrix)));

function matrixCalls(
  { gpu, buffers, momentum, label }: MuonParts,
  { values, sum, m, shadow }: WholeTensor,
  matrix: WholeMatrix,
): KernelCall[] {
  const { short: S, long: L } = sidesOf(matrix);
  const { rows, columns, stride, at } = matrix;
  const shape = { S, L, ...(rows > columns ? { rowStep: 1, columnStep: stride } : { rowStep: stride, columnStep: 1 }) };
  const length = (rows - 1) * stride + columns;
  const over = (place: Begins, elementBytes = 4) =>
    windowOf(place.buffer, { at: place.at + at, length }, gpu.bindingBytes, elementBytes);
  const room = (name: keyof typeof MUON): BufferSlice => ({ buffer: buffers.get(MUON[name]) });
  const scalars = { buffer: buffers.get('scalars') };
  const [grads, moments, master] = [over(sum), over(m), over(values)];
  const product = (layout: 'NN' | 'NT') => forDevice(gpu, 'f32', matmul({ layout }));
  const begin = { ...shape, gradientOffset: grads.at, momentOffset: moments.at, momentum };
  const made = [
    call(muonBegin, { grads: grads.slice, m: moments.slice, x: room('x'), scalars }, begin, label),
    call(sumSquares, { x: room('x'), partials: room('partials') }, { n: S * L, accumulate: 0 }, label),
    call(muonStart, { partials: room('partials'), x: room('x') }, { n: S * L }, label),
  ];
  let [x, next] = [room('x'), room('next')];
  const [square, polynomial] = [room('square'), room('polynomial')];
  for (let step = 0; step < ORTHOGONAL_STEPS; step++) {
    made.push(
      call(product('NT'), { a: x, b: x, c_MN: square }, { M: S, N: S, K: L }, label),
      call(product('NN'), { a: square, b: square, c_MN: polynomial }, { M: S, N: S, K: S }, label),
      call(muonPolynomial, { m: square, square: polynomial }, { S }, label),
      call(product('NN'), { a: polynomial, b: x, c_MN: next }, { M: S, N: L, K: S }, label),
    );
    [x, next] = [next, x];
  }
  const bound = { x, values: master.slice, scalars };
  const apply = { ...shape, offset: master.at, scale: muonScale(matrix) };
  if (shadow === null) return [...made, call(muonApply, bound, apply, label)];
  const half = over(shadow, 2);
  const shadowed = { ...apply, shadowOffset: half.at };
  return [...made, call(inHalves(muonApplyShadow), { ...bound, shadow: half.slice }, shadowed, label)];
}
