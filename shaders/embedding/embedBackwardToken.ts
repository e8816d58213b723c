/**
 * Gradient of the token table: dtoken_VC[id] += Σ dx_NC[n] over the rows n with that id, in ascending order of n and
 * without atomics (see sortTokens.ts, which makes `order` and `segments` on the CPU).
 */

import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './embedBackwardToken.wgsl?raw';
import { segmentsLength, sortTokens } from './sortTokens.ts';

export const embedBackwardToken: Kernel = {
  name: 'embed.backwardToken',
  tensors: [read('order', 'u32'), read('segments', 'u32'), half(read('dx')), readWrite('dtoken')],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C, V }) => ({ order: N, segments: segmentsLength(N), dx: N * C, dtoken: V * C }),
  variant: (_family, { C }) =>
    laneVariant({ name: 'embed.backwardToken', code, lanes: lanesOf(C) }, (dims) => dims.N * dims.C),
  cpu: embedBackwardTokenCpu,
  cases: [
    { N: 1, C: 1, V: 1 },
    { N: 14, C: 5, V: 3 },
    { N: 74, C: 60, V: 50 },
    { N: 256, C: 128, V: 256 },
  ],
  fill(arrays, { N, V }, random) {
    // Squared: low ids come often, most of the high ones never, as in text.
    const { order, segments } = sortTokens(Array.from({ length: N }, () => Math.floor(random() ** 2 * V)));
    arrays.order.set(order);
    arrays.segments.set(segments);
  },
  tolerance: { absolute: 4e-6, relative: 1e-6 },
  cost: ({ N, C }) => ({ flops: N * C, bytes: 4 * 3 * N * C }),
};

function embedBackwardTokenCpu({ order, segments, dx, dtoken }: Arrays, { C }: Dims): void {
  for (let s = 0; s < segments[0]; s++) {
    const [id, from, to] = segments.subarray(1 + 3 * s, 4 + 3 * s);
    for (let c = 0; c < C; c++) {
      let sum = dtoken[id * C + c];
      for (let i = from; i < to; i++) sum += dx[order[i] * C + c];
      dtoken[id * C + c] = sum;
    }
  }
}
