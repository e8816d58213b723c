/** The gradient of what went through a GELU (geluForward.ts) becomes that of what it was before, x. */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import { GELU } from './gatedForward.ts';
import code from './geluBackward.wgsl?raw';
import { fillTails } from './geluForward.ts';

export const geluBackward = kernel({
  name: 'gelu.backward',
  tensors: [half(read('x')), half(readWrite('dx'))],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, dx: n }),
  source: (_family, { n }) =>
    laneSource({ name: 'gelu.backward', code: GELU.code + code, width: laneWidth(n) }, (dims) => dims.n),
  cpu({ x, dx }, { n }) {
    for (let i = 0; i < n; i++) dx[i] = at(dx, i) * GELU.slope(at(x, i));
  },
  cases: [{ n: 1 }, { n: 259 }, { n: 4096 }],
  fill: fillTails,
  tolerance: { absolute: 3e-6, relative: 3e-6 },
  cost: ({ n }) => ({ flops: 8 * n, bytes: 4 * 3 * n }),
});
