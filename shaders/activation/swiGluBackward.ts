/**
 * Gradient of SwiGLU for both halves of its input: with s = 1/(1 + e^(−gate)),
 *   dgate = dy·up·(s + gate·s·(1 − s)),   dup = dy·gate·s.
 */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import silu from './silu.wgsl?raw';
import code from './swiGluBackward.wgsl?raw';
import { fillGates, logistic, swiGluForward } from './swiGluForward.ts';

export const swiGluBackward: Kernel = {
  name: 'swiGlu.backward',
  tensors: [half(read('x')), half(read('dy')), half(readWrite('dx'))],
  dims: [u32('N'), u32('I')],
  sizes: ({ N, I }) => ({ x: N * 2 * I, dy: N * I, dx: N * 2 * I }),
  variant: (_family, { I }) =>
    laneVariant({ name: 'swiGlu.backward', code: silu + code, lanes: lanesOf(I) }, (dims) => dims.N * dims.I),
  cpu: swiGluBackwardCpu,
  cases: swiGluForward.cases,
  fill: fillGates,
  tolerance: { absolute: 2e-6, relative: 4e-6 },
  cost: ({ N, I }) => ({ flops: 12 * N * I, bytes: 4 * 5 * N * I }),
};

function swiGluBackwardCpu({ x, dy, dx }: Arrays, { N, I }: Dims): void {
  for (let n = 0; n < N; n++) {
    for (let i = 0; i < I; i++) {
      const at = n * 2 * I + i;
      const [gate, up, g] = [x[at], x[at + I], dy[n * I + i]];
      const s = logistic(gate);
      dx[at] = g * up * (s + gate * s * (1 - s));
      dx[at + I] = g * gate * s;
    }
  }
}
