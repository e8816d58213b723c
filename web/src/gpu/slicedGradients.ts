/** Gradients as kernel calls: the product as it is or, where a GPU would have too little to do, in slices and their sum. */

import type { GpuClass } from '../../../shaders/family/adapterFamily.ts';
import { inputGradientSlices, matmul, weightGradientSlices } from '../../../shaders/family/matmul.ts';
import { sumSlices, sumSlicesBias, sumSlicesInput } from '../../../shaders/family/sumSlices.ts';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import { invariant } from '../../../swarm/base.ts';
import { call, type KernelCall } from './kernelCall.ts';

/** Where slices may lie until they are added up. */
export interface Room {
  readonly place: BufferSlice;
  readonly bytes: number;
}

/** What decides how gradients are cut, beside their shapes. */
interface Adapter {
  readonly family: AdapterFamily;
  readonly gpuClass?: GpuClass | undefined;
}

export function weightGradient(whole: KernelCall, room: Room | null, adapter: Adapter): KernelCall[] {
  const { buffers, dims, label } = whole;
  const { a, b, c_MN, dbias_N } = buffers;
  invariant(a && b && c_MN, 'a weight gradient is a product');
  const roomBytes = room?.bytes ?? 0;
  const sliced = weightGradientSlices(dims, dbias_N !== undefined, { ...adapter, roomBytes });
  if (sliced.count === 1 || room === null) return [whole];
  const { steps, count, floats, elements } = sliced;
  const slices = room.place;
  const product = matmul({ layout: 'TN', epilogue: { biasGradient: dbias_N !== undefined }, slices: true });
  const sums = { count, floats, elements };
  return [
    call(product, { a, b, c_MN: slices }, { ...dims, S: steps }, label),
    dbias_N
      ? call(sumSlicesBias, { slices, c_MN, dbias_N }, sums, `${label} slices`)
      : call(sumSlices, { slices, c_MN }, sums, `${label} slices`),
  ];
}

/** Of the gradient of a head's input; it is set, or with `accumulate` added. */
export function inputGradient(
  whole: KernelCall,
  {
    accumulate,
    room,
    adapter,
  }: { readonly accumulate: boolean; readonly room: Room | undefined; readonly adapter: Adapter },
): KernelCall[] {
  const { buffers, dims, label } = whole;
  const { a, b, c_MN } = buffers;
  const { M, N, P } = dims;
  invariant(a && b && c_MN && M !== undefined && N !== undefined, 'the gradient of an input is a product');
  const { steps, count } = inputGradientSlices(dims, { ...adapter, roomBytes: room?.bytes ?? 0 });
  if (count === 1 || room === undefined) return [whole];
  const slices = room.place;
  const product = matmul({ layout: 'NN', slices: true, ...(P !== undefined && { ofWider: true }) });
  return [
    call(product, { a, b, c_MN: slices }, { ...dims, S: steps }, label),
    call(sumSlicesInput, { slices, c_MN }, { count, floats: M * N, accumulate: accumulate ? 1 : 0 }, `${label} slices`),
  ];
}
