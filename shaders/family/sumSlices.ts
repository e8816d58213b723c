/**
 * The end of a weight gradient in slices: their sums, added in order onto the gradient. A slice has `elements` floats of
 * the gradient and, with `biasGradient`, the N of the bias gradient behind them: `floats` in all.
 */
import type { Kernel } from '../kernel.ts';
import { read, readWrite, u32 } from '../slots.ts';
import code from './sumSlices.wgsl?raw';
import bias from './sumSlicesBias.wgsl?raw';
import plain from './sumSlicesPlain.wgsl?raw';

const GROUP = 64;

function sumSlicesOf(name: string, biasGradient: boolean): Kernel {
  return {
    name,
    tensors: [read('slices'), readWrite('c'), ...(biasGradient ? [readWrite('biasGradient')] : [])],
    dims: [u32('count'), u32('floats'), u32('elements')],
    sizes: ({ count, floats, elements }) => ({
      slices: count * floats,
      c: elements,
      ...(biasGradient ? { biasGradient: floats - elements } : {}),
    }),
    variant: () => ({
      key: name,
      code: code + (biasGradient ? bias : plain),
      entryPoint: 'main',
      subgroups: false,
      workgroups: ({ floats }) => [Math.ceil(floats / GROUP), 1, 1],
    }),
    cpu({ slices, c, biasGradient: behind }, { count, floats, elements }) {
      for (let i = 0; i < floats; i++) {
        let sum = 0;
        for (let slice = 0; slice < count; slice++) sum += slices[slice * floats + i];
        if (i < elements) c[i] += sum;
        else behind[i - elements] += sum;
      }
    },
    cases: [
      { count: 1, floats: 1, elements: 1 },
      { count: 2, floats: 64, elements: 64 },
      { count: 5, floats: 259, elements: 259 },
      { count: 16, floats: 4099, elements: 4099 },
    ].map((dims) => (biasGradient ? { ...dims, floats: dims.floats + 3 } : dims)),
    tolerance: { absolute: 1e-5, relative: 1e-5 },
    cost: ({ count, floats }) => ({ flops: count * floats, bytes: 4 * (count + 2) * floats }),
  };
}

export const sumSlices = sumSlicesOf('sumSlices', false);
export const sumSlicesBias = sumSlicesOf('sumSlices.biasGradient', true);
