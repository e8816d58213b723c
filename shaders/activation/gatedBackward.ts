/**
 * Gradient of a gated linear unit for both halves of its input: dgate = dy·up·act′(gate), dup = dy·act(gate).
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './gatedBackward.wgsl?raw';
import { fillGates, type Gate, GELU, SILU, swiGluForward } from './gatedForward.ts';

const gatedBackward = (name: string, gate: Gate) =>
  kernel({
    name,
    tensors: [half(read('x_N2I')), half(read('dy_NI')), half(readWrite('dx_N2I'))],
    dims: [u32('N'), u32('I')],
    sizes: ({ N, I }) => ({ x_N2I: N * 2 * I, dy_NI: N * I, dx_N2I: N * 2 * I }),
    source: (_family, { I }) =>
      laneSource({ name, code: gate.code + code, width: laneWidth(I) }, (dims) => dims.N * dims.I),
    cpu({ x_N2I, dy_NI, dx_N2I }, { N, I }) {
      for (let n = 0; n < N; n++) {
        for (let i = 0; i < I; i++) {
          const place = n * 2 * I + i;
          const [x, up, g] = [at(x_N2I, place), at(x_N2I, place + I), at(dy_NI, n * I + i)];
          dx_N2I[place] = g * up * gate.slope(x);
          dx_N2I[place + I] = g * gate.value(x);
        }
      }
    },
    cases: swiGluForward.cases,
    fill: fillGates,
    tolerance: { absolute: 2e-6, relative: 4e-6 },
    cost: ({ N, I }) => ({ flops: 12 * N * I, bytes: 4 * 5 * N * I }),
  });

export const swiGluBackward = gatedBackward('swiGlu.backward', SILU);
export const geGluBackward = gatedBackward('geGlu.backward', GELU);
