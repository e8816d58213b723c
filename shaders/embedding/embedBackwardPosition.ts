/** Gradient of the position table: dposition_TC[t] += Σ over the samples b of dx_NC[b·T + t]. */

import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './embedBackwardPosition.wgsl?raw';

export const embedBackwardPosition: Kernel = {
  name: 'embed.backwardPosition',
  tensors: [half(read('dx')), readWrite('dposition')],
  dims: [u32('N'), u32('T'), u32('C')],
  sizes: ({ N, T, C }) => ({ dx: N * C, dposition: T * C }),
  variant: (_family, { C }) =>
    laneVariant({ name: 'embed.backwardPosition', code, lanes: lanesOf(C) }, (dims) => dims.T * dims.C),
  cpu: embedBackwardPositionCpu,
  cases: [
    { N: 1, T: 1, C: 1 },
    { N: 21, T: 7, C: 5 },
    { N: 259, T: 37, C: 60 },
    { N: 256, T: 64, C: 128 },
  ],
  tolerance: { absolute: 2e-6, relative: 1e-6 },
  cost: ({ N, T, C }) => ({ flops: N * C, bytes: 4 * (N + 2 * T) * C }),
};

function embedBackwardPositionCpu({ dx, dposition }: Arrays, { N, T, C }: Dims): void {
  for (let t = 0; t < T; t++) {
    for (let c = 0; c < C; c++) {
      let sum = dposition[t * C + c];
      for (let n = t; n < N; n += T) sum += dx[n * C + c];
      dposition[t * C + c] = sum;
    }
  }
}
