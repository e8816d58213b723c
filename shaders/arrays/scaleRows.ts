/** x_NC[n] *= weight_N[n]: of preference pairs, what each row's gradient counts, and whether an adapter is on. */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { by, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './scaleRows.wgsl?raw';

export const scaleRows = kernel({
  name: 'scaleRows',
  tensors: [by(1, read('weight_N')), half(readWrite('x_NC'))],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C }) => ({ weight_N: N, x_NC: N * C }),
  source: (_family, { C }) => laneSource({ name: 'scaleRows', code, width: laneWidth(C) }, (dims) => dims.N * dims.C),
  cpu({ weight_N, x_NC }, { N, C }) {
    for (let n = 0; n < N; n++) for (let c = 0; c < C; c++) x_NC[n * C + c] = at(x_NC, n * C + c) * at(weight_N, n);
  },
  cases: [
    { N: 1, C: 1 },
    { N: 5, C: 7 },
    { N: 37, C: 300 },
    { N: 256, C: 64 },
  ],
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ N, C }) => ({ flops: N * C, bytes: 4 * 2 * N * C }),
});
