/**
 * SwiGLU (Shazeer 2020): y_NI = silu(gate)·up with silu(x) = x/(1 + e^(−x)). x_N2I holds gate and up side by side, as one
 * product of both matrices writes them.
 */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import silu from './silu.wgsl?raw';
import code from './swiGluForward.wgsl?raw';

export const logistic = (x: number): number => 1 / (1 + Math.exp(-x));

export const swiGluForward: Kernel = {
  name: 'swiGlu.forward',
  tensors: [half(read('x')), half(readWrite('y'))],
  dims: [u32('N'), u32('I')],
  sizes: ({ N, I }) => ({ x: N * 2 * I, y: N * I }),
  variant: (_family, { I }) =>
    laneVariant({ name: 'swiGlu.forward', code: silu + code, lanes: lanesOf(I) }, (dims) => dims.N * dims.I),
  cpu: swiGluForwardCpu,
  cases: [
    { N: 1, I: 1 },
    { N: 5, I: 7 },
    { N: 37, I: 200 },
    { N: 256, I: 344 },
  ],
  fill: fillGates,
  tolerance: { absolute: 2e-6, relative: 3e-6 },
  cost: ({ N, I }) => ({ flops: 6 * N * I, bytes: 4 * 3 * N * I }),
};

/** Gates from both tails, some of them so far out that e^(−x) would overflow. */
export function fillGates({ x }: Arrays, { I }: Dims): void {
  for (let i = 0; i < x.length; i++) if (i % (2 * I) < I) x[i] *= i % 11 === 0 ? 100 : 4;
}

function swiGluForwardCpu({ x, y }: Arrays, { N, I }: Dims): void {
  for (let n = 0; n < N; n++) {
    for (let i = 0; i < I; i++) {
      const [gate, up] = [x[n * 2 * I + i], x[n * 2 * I + I + i]];
      y[n * I + i] = gate * logistic(gate) * up;
    }
  }
}
