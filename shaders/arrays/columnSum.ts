/** Gradient of a bias: dbias_C += Σ_n dy_NC[n], in a fixed order of the rows. */

import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { columnVariant, lanesOf } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './columnSum.wgsl?raw';

export const columnSum: Kernel = {
  name: 'columnSum',
  tensors: [half(read('dy')), readWrite('dbias')],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C }) => ({ dy: N * C, dbias: C }),
  variant: (family, { C }) => columnVariant({ name: 'columnSum', code, lanes: lanesOf(C) }, family),
  cpu: columnSumCpu,
  cases: [
    { N: 1, C: 1 },
    { N: 5, C: 7 },
    { N: 259, C: 60 },
    { N: 256, C: 512 },
  ],
  tolerance: { absolute: 2e-5, relative: 2e-6 },
  cost: ({ N, C }) => ({ flops: N * C, bytes: 4 * N * C }),
};

function columnSumCpu({ dy, dbias }: Arrays, { N, C }: Dims): void {
  for (let c = 0; c < C; c++) {
    let sum = dbias[c];
    for (let n = 0; n < N; n++) sum += dy[n * C + c];
    dbias[c] = sum;
  }
}
