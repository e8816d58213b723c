/**
 * Gated linear units (Shazeer 2020): y_NI = act(gate)·up. x_N2I holds gate and up side by side, as one product of both
 * matrices writes them. SwiGLU: act is silu(x) = x/(1 + e^(−x)); GeGLU: the tanh approximation of GELU,
 * ½x(1 + tanh(√(2/π)·(x + 0.044715x³))).
 */
import { at } from '../../swarm/base.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './gatedForward.wgsl?raw';
import gelu from './gelu.wgsl?raw';
import silu from './silu.wgsl?raw';

/** An activation: its text, its value and its slope. */
export interface Gate {
  readonly code: string;
  value(x: number): number;
  slope(x: number): number;
}

const logistic = (x: number): number => 1 / (1 + Math.exp(-x));
const SCALE = 2 * Math.sqrt(2 / Math.PI);
const CUBIC = 0.044715;
const geluShare = (x: number): number => logistic(SCALE * (x + CUBIC * x ** 3));

export const SILU: Gate = {
  code: silu,
  value: (x) => x * logistic(x),
  slope: (x) => logistic(x) * (1 + x * (1 - logistic(x))),
};
export const GELU: Gate = {
  code: gelu,
  value: (x) => x * geluShare(x),
  slope: (x) => geluShare(x) * (1 + x * (1 - geluShare(x)) * SCALE * (1 + 3 * CUBIC * x * x)),
};

const gatedForward = (name: string, gate: Gate) =>
  kernel({
    name,
    tensors: [half(read('x_N2I')), half(readWrite('y_NI'))],
    dims: [u32('N'), u32('I')],
    sizes: ({ N, I }) => ({ x_N2I: N * 2 * I, y_NI: N * I }),
    source: (_family, { I }) =>
      laneSource({ name, code: gate.code + code, width: laneWidth(I) }, (dims) => dims.N * dims.I),
    cpu({ x_N2I, y_NI }, { N, I }) {
      for (let n = 0; n < N; n++) {
        for (let i = 0; i < I; i++)
          y_NI[n * I + i] = gate.value(at(x_N2I, n * 2 * I + i)) * at(x_N2I, n * 2 * I + I + i);
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

export const swiGluForward = gatedForward('swiGlu.forward', SILU);
export const geGluForward = gatedForward('geGlu.forward', GELU);

/** Gates from both tails, some of them so far out that e^(−x) would overflow. */
export function fillGates({ x_N2I }: Arrays<'x_N2I'>, { I }: Dims<'I'>): void {
  for (let i = 0; i < x_N2I.length; i++) if (i % (2 * I) < I) x_N2I[i] = at(x_N2I, i) * (i % 11 === 0 ? 100 : 4);
}
