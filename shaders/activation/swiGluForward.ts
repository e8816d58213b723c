/**
 * SwiGLU (Shazeer 2020): y_NI = silu(gate)·up with silu(x) = x/(1 + e^(−x)). x_N2I holds gate and up side by side, as one
 * product of both matrices writes them.
 */
import { at } from '../../swarm/base.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import silu from './silu.wgsl?raw';
import code from './swiGluForward.wgsl?raw';

export const logistic = (x_N2I: number): number => 1 / (1 + Math.exp(-x_N2I));

export const swiGluForward = kernel({
  name: 'swiGlu.forward',
  tensors: [half(read('x_N2I')), half(readWrite('y_NI'))],
  dims: [u32('N'), u32('I')],
  sizes: ({ N, I }) => ({ x_N2I: N * 2 * I, y_NI: N * I }),
  source: (_family, { I }) =>
    laneSource({ name: 'swiGlu.forward', code: silu + code, width: laneWidth(I) }, (dims) => dims.N * dims.I),
  cpu({ x_N2I, y_NI }, { N, I }) {
    for (let n = 0; n < N; n++) {
      for (let i = 0; i < I; i++) {
        const [gate, up] = [at(x_N2I, n * 2 * I + i), at(x_N2I, n * 2 * I + I + i)];
        y_NI[n * I + i] = gate * logistic(gate) * up;
      }
    }
  },
  cases: [
    { N: 1, I: 1 },
    { N: 5, I: 7 },
    { N: 37, I: 200 },
    { N: 256, I: 344 },
  ],
  fill: fillGates,
  tolerance: { absolute: 2e-6, relative: 3e-6 },
  cost: ({ N, I }) => ({ flops: 6 * N * I, bytes: 4 * 3 * N * I }),
});

/** Gates from both tails, some of them so far out that e^(−x) would overflow. */
export function fillGates({ x_N2I }: Arrays<'x_N2I'>, { I }: Dims<'I'>): void {
  for (let i = 0; i < x_N2I.length; i++) if (i % (2 * I) < I) x_N2I[i] = at(x_N2I, i) * (i % 11 === 0 ? 100 : 4);
}
