/**
 * Token and position embedding: x_NC[n] = token_VC[ids_N[n]] + position_TC[n mod T]. Rows are whole samples of T
 * positions one after the other, so a row's position is its number modulo T.
 */

import { fillBelow } from '../fill.ts';
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './embedForward.wgsl?raw';

export const embedForward: Kernel = {
  name: 'embed.forward',
  tensors: [read('ids', 'u32'), half(read('token')), half(read('position')), half(readWrite('x'))],
  dims: [u32('N'), u32('T'), u32('C')],
  // V is no dim of the kernel, only of its cases: ids are trusted to be below it.
  sizes: ({ N, T, C, V }) => ({ ids: N, token: V * C, position: T * C, x: N * C }),
  variant: (_family, { C }) =>
    laneVariant({ name: 'embed.forward', code, lanes: lanesOf(C) }, (dims) => dims.N * dims.C),
  cpu: embedForwardCpu,
  cases: [
    { N: 1, T: 1, C: 1, V: 1 },
    { N: 14, T: 7, C: 5, V: 11 },
    { N: 74, T: 37, C: 60, V: 50 },
    { N: 256, T: 64, C: 128, V: 256 },
  ],
  fill: ({ ids }, { V }, random) => fillBelow(ids, V, random),
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ N, C }) => ({ flops: N * C, bytes: 4 * (3 * N * C + N) }),
};

function embedForwardCpu({ ids, token, position, x }: Arrays, { N, T, C }: Dims): void {
  for (let n = 0; n < N; n++) {
    for (let c = 0; c < C; c++) x[n * C + c] = token[ids[n] * C + c] + position[(n % T) * C + c];
  }
}
