/** acc += x, element by element: gradients of one micro-batch or one holder joining the sum. */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { read, readWrite, u32 } from '../kernel/slots.ts';
import code from './addInto.wgsl?raw';

export const addInto = kernel({
  name: 'addInto',
  tensors: [read('x'), readWrite('acc')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, acc: n }),
  source: (_family, { n }) => laneSource({ name: 'addInto', code, width: laneWidth(n) }, (dims) => dims.n),
  cpu({ x, acc }, { n }) {
    for (let i = 0; i < n; i++) acc[i] = at(acc, i) + at(x, i);
  },
  cases: [{ n: 1 }, { n: 259 }, { n: 4096 }],
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ n }) => ({ flops: n, bytes: 4 * 3 * n }),
});
