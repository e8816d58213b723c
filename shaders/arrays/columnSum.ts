/** Gradient of a bias: dbias_C += Σ_n dy_NC[n], in a fixed order of the rows. */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { columnSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './columnSum.wgsl?raw';

export const columnSum = kernel({
  name: 'columnSum',
  tensors: [half(read('dy_NC')), readWrite('dbias_C')],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C }) => ({ dy_NC: N * C, dbias_C: C }),
  source: (family, { C }) => columnSource({ name: 'columnSum', code, width: laneWidth(C) }, family),
  cpu({ dy_NC, dbias_C }, { N, C }) {
    for (let c = 0; c < C; c++) {
      let sum = at(dbias_C, c);
      for (let n = 0; n < N; n++) sum += at(dy_NC, n * C + c);
      dbias_C[c] = sum;
    }
  },
  cases: [
    { N: 1, C: 1 },
    { N: 5, C: 7 },
    { N: 259, C: 60 },
    { N: 256, C: 512 },
  ],
  tolerance: { absolute: 2e-5, relative: 2e-6 },
  cost: ({ N, C }) => ({ flops: N * C, bytes: 4 * N * C }),
});
