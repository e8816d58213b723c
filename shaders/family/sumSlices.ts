/**
 * The end of a product in slices: their sums, added in order. A weight gradient's go onto the gradient: a slice has
 * `elements` floats of it and, with `biasGradient`, the N of the bias gradient behind them: `floats` in all. Those of the
 * gradient of an input are set, or added (`accumulate` 1).
 */
import { at } from '../../swarm/base.ts';
import { type Kernel, kernel } from '../kernel/kernel.ts';
import { laneSource } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './sumSlices.wgsl?raw';
import bias from './sumSlicesBias.wgsl?raw';
import input from './sumSlicesInput.wgsl?raw';
import plain from './sumSlicesPlain.wgsl?raw';

function sumSlicesOf(name: string, biasGradient: boolean): Kernel {
  return kernel({
    name,
    tensors: [read('slices'), readWrite('c_MN'), ...(biasGradient ? [readWrite('dbias_N')] : [])],
    dims: [u32('count'), u32('floats'), u32('elements')],
    sizes: ({ count, floats, elements }) => ({
      slices: count * floats,
      c_MN: elements,
      dbias_N: biasGradient ? floats - elements : 0,
    }),
    source: (_family) =>
      laneSource({ name, code: code + (biasGradient ? bias : plain), width: 1 }, ({ floats }) => floats),
    cpu({ slices, c_MN, dbias_N }, { count, floats, elements }) {
      for (let i = 0; i < floats; i++) {
        let sum = 0;
        for (let slice = 0; slice < count; slice++) sum += at(slices, slice * floats + i);
        if (i < elements) c_MN[i] = at(c_MN, i) + sum;
        else dbias_N[i - elements] = at(dbias_N, i - elements) + sum;
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
  });
}

/** Of the gradient of an input, which may be kept in halves. */
export const sumSlicesInput = kernel({
  name: 'sumSlices.input',
  tensors: [read('slices'), half(readWrite('c_MN'))],
  dims: [u32('count'), u32('floats'), u32('accumulate')],
  sizes: ({ count, floats }) => ({ slices: count * floats, c_MN: floats }),
  source: () => laneSource<'floats'>({ name: 'sumSlices.input', code: code + input, width: 1 }, ({ floats }) => floats),
  cpu({ slices, c_MN }, { count, floats, accumulate }) {
    for (let i = 0; i < floats; i++) {
      let sum = 0;
      for (let slice = 0; slice < count; slice++) sum += at(slices, slice * floats + i);
      c_MN[i] = sum + (accumulate === 1 ? at(c_MN, i) : 0);
    }
  },
  cases: [
    { count: 1, floats: 1, accumulate: 0 },
    { count: 2, floats: 64, accumulate: 1 },
    { count: 5, floats: 259, accumulate: 0 },
    { count: 16, floats: 4099, accumulate: 1 },
  ],
  tolerance: { absolute: 1e-5, relative: 1e-5 },
  cost: ({ count, floats }) => ({ flops: count * floats, bytes: 4 * (count + 2) * floats }),
});

export const sumSlices = sumSlicesOf('sumSlices', false);
export const sumSlicesBias = sumSlicesOf('sumSlices.biasGradient', true);
