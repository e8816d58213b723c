/** GELU element by element, where a product's own epilogue cannot have it: an adapter's change joins the sum before it. */
import { at } from '../../swarm/base.ts';
import { type Arrays, kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import { GELU } from './gatedForward.ts';
import code from './geluForward.wgsl?raw';

export const geluForward = kernel({
  name: 'gelu.forward',
  tensors: [half(read('x')), half(readWrite('y'))],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, y: n }),
  source: (_family, { n }) =>
    laneSource({ name: 'gelu.forward', code: GELU.code + code, width: laneWidth(n) }, (dims) => dims.n),
  cpu({ x, y }, { n }) {
    for (let i = 0; i < n; i++) y[i] = GELU.value(at(x, i));
  },
  cases: [{ n: 1 }, { n: 259 }, { n: 4096 }],
  fill: fillTails,
  tolerance: { absolute: 2e-6, relative: 3e-6 },
  cost: ({ n }) => ({ flops: 6 * n, bytes: 4 * 2 * n }),
});

/** Values from both tails. */
export function fillTails({ x }: Arrays<'x'>): void {
  for (let i = 0; i < x.length; i++) x[i] = at(x, i) * (i % 11 === 0 ? 100 : 4);
}
