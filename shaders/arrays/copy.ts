/**
 * A copy of n elements. It is worth a kernel only where one side is kept in halves and the other is floats (inHalves.ts):
 * `copyIn` has floats as they came and leaves what a stage keeps, `copyOut` is the way back.
 */

import type { Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './copy.wgsl?raw';

const copy: Omit<Kernel, 'name' | 'tensors'> = {
  dims: [u32('n'), u32('offset')],
  sizes: ({ n, offset }) => ({ x: n, y: offset + n }),
  variant: (_family, { n, offset }) => laneVariant({ name: 'copy', code, lanes: lanesOf(n, offset) }, (dims) => dims.n),
  cpu: ({ x, y }, { n, offset }) => {
    for (let i = 0; i < n; i++) y[offset + i] = x[i];
  },
  cases: [
    { n: 1, offset: 0 },
    { n: 259, offset: 3 },
    { n: 1024, offset: 128 },
  ],
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: 0, bytes: 4 * 2 * n }),
};

export const copyIn: Kernel = { ...copy, name: 'copy.in', tensors: [read('x'), half(readWrite('y'))] };
export const copyOut: Kernel = { ...copy, name: 'copy.out', tensors: [half(read('x')), readWrite('y')] };
