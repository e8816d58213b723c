/** acc += x, element by element: gradients of one micro-batch or one holder joining the sum. */

import type { Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { read, readWrite, u32 } from '../slots.ts';
import code from './addInto.wgsl?raw';

export const addInto: Kernel = {
  name: 'addInto',
  tensors: [read('x'), readWrite('acc')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, acc: n }),
  variant: (_family, { n }) => laneVariant({ name: 'addInto', code, lanes: lanesOf(n) }, (dims) => dims.n),
  cpu({ x, acc }, { n }) {
    for (let i = 0; i < n; i++) acc[i] += x[i];
  },
  cases: [{ n: 1 }, { n: 259 }, { n: 4096 }],
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ n }) => ({ flops: n, bytes: 4 * 3 * n }),
};
