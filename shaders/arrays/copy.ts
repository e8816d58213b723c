/**
 * A copy of n elements. It is worth a kernel only where one side is kept in halves and the other is floats (inHalves.ts):
 * `copyIn` has floats as they came and leaves what a stage keeps, `copyOut` is the way back.
 */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './copy.wgsl?raw';

export const copyIn = kernel({
  name: 'copy.in',
  tensors: [read('x'), half(readWrite('y'))],
  dims: [u32('n'), u32('offset')],
  sizes: ({ n, offset }) => ({ x: n, y: offset + n }),
  source: (_family, { n, offset }) => laneSource({ name: 'copy', code, width: laneWidth(n, offset) }, (dims) => dims.n),
  cpu: ({ x, y }, { n, offset }) => {
    for (let i = 0; i < n; i++) y[offset + i] = at(x, i);
  },
  cases: [
    { n: 1, offset: 0 },
    { n: 259, offset: 3 },
    { n: 1024, offset: 128 },
  ],
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: 0, bytes: 4 * 2 * n }),
});

export const copyOut: typeof copyIn = { ...copyIn, name: 'copy.out', tensors: [half(read('x')), readWrite('y')] };
