/** Gradient of a bias: dbias_K += Σ_n dy_NK[n], in a fixed order of the rows. */
import code from './columnSum.wgsl?raw';
import type { Arrays, Dims, Kernel } from './kernel.ts';
import { columnVariant, lanesOf } from './lanes.ts';
import { read, readWrite, u32 } from './slots.ts';

export const columnSum: Kernel = {
  name: 'columnSum',
  tensors: [read('dy'), readWrite('dbias')],
  dims: [u32('N'), u32('K')],
  sizes: ({ N, K }) => ({ dy: N * K, dbias: K }),
  variant: (family, { K }) => columnVariant({ name: 'columnSum', code, lanes: lanesOf(K) }, family, (dims) => dims.K),
  cpu: columnSumCpu,
  cases: [
    { N: 1, K: 1 },
    { N: 5, K: 7 },
    { N: 259, K: 60 },
    { N: 256, K: 512 },
  ],
  tolerance: { absolute: 2e-5, relative: 2e-6 },
  cost: ({ N, K }) => ({ flops: N * K, bytes: 4 * N * K }),
};

function columnSumCpu({ dy, dbias }: Arrays, { N, K }: Dims): void {
  for (let k = 0; k < K; k++) {
    let sum = dbias[k];
    for (let n = 0; n < N; n++) sum += dy[n * K + k];
    dbias[k] = sum;
  }
}
