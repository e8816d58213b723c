/**
 * Gradient of SwiGLU for both halves of its input: with s = 1/(1 + e^(−gate)),
 *   dgate = dy·up·(s + gate·s·(1 − s)),   dup = dy·gate·s.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import silu from './silu.wgsl?raw';
import code from './swiGluBackward.wgsl?raw';
import { fillGates, logistic, swiGluForward } from './swiGluForward.ts';

export const swiGluBackward = kernel({
  name: 'swiGlu.backward',
  tensors: [half(read('x_N2I')), half(read('dy_NI')), half(readWrite('dx_N2I'))],
  dims: [u32('N'), u32('I')],
  sizes: ({ N, I }) => ({ x_N2I: N * 2 * I, dy_NI: N * I, dx_N2I: N * 2 * I }),
  source: (_family, { I }) =>
    laneSource({ name: 'swiGlu.backward', code: silu + code, width: laneWidth(I) }, (dims) => dims.N * dims.I),
  cpu({ x_N2I, dy_NI, dx_N2I }, { N, I }) {
    for (let n = 0; n < N; n++) {
      for (let i = 0; i < I; i++) {
        const place = n * 2 * I + i;
        const [gate, up, g] = [at(x_N2I, place), at(x_N2I, place + I), at(dy_NI, n * I + i)];
        const s = logistic(gate);
        dx_N2I[place] = g * up * (s + gate * s * (1 - s));
        dx_N2I[place + I] = g * gate * s;
      }
    }
  },
  cases: swiGluForward.cases,
  fill: fillGates,
  tolerance: { absolute: 2e-6, relative: 4e-6 },
  cost: ({ N, I }) => ({ flops: 12 * N * I, bytes: 4 * 5 * N * I }),
});
