/** A weight gradient as dispatches: the product as it is or, where a GPU would have too little to do, in slices and their sum. */
import { sumSlices, sumSlicesBias } from '../../../shaders/family/sumSlices.ts';
import type { AdapterFamily } from '../../../shaders/kernel.ts';
import type { BufferSlice } from '../../../shaders/launch.ts';
import { matmul, weightGradientSlices } from '../../../shaders/matmul.ts';
import type { Dispatch } from './dispatch.ts';

/** Where slices may lie until they are added up. */
interface Room {
  readonly place: BufferSlice;
  readonly bytes: number;
}

export function weightGradient(whole: Dispatch, room: Room | null, family: AdapterFamily): Dispatch[] {
  const { buffers, dims, label } = whole;
  const biasGradient = 'biasGradient' in buffers;
  const roomBytes = room?.bytes ?? 0;
  const { steps, count, floats } = weightGradientSlices(family, dims, { biasGradient, roomBytes });
  if (count === 1 || room === null) return [whole];
  const { a, b, ...gradients } = buffers;
  const slices = room.place;
  return [
    {
      kernel: matmul({ layout: 'TN', epilogue: { biasGradient }, slices: true }),
      buffers: { a, b, c: slices },
      dims: { ...dims, S: steps },
      label,
    },
    {
      kernel: biasGradient ? sumSlicesBias : sumSlices,
      buffers: { slices, ...gradients },
      dims: { count, floats, elements: dims.M * dims.N },
      label: `${label} slices`,
    },
  ];
}
