/**
 * Gradient of the token table, or with positions for ids of the position table: dtoken_VC[id] += scale·Σ dx_NC[n] over the
 * rows n with that id, in ascending order of n and without atomics (see sortTokens.ts, which makes `order` and `segments`
 * on the CPU). Pieces as in embedForward.ts.
 */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './embedBackwardToken.wgsl?raw';
import { segmentsLength, sortTokens } from './sortTokens.ts';

export const embedBackwardToken = kernel({
  name: 'embed.backwardToken',
  tensors: [read('order_N', 'u32'), read('segments', 'u32'), half(read('dx_NC')), readWrite('dtoken_VC')],
  dims: [u32('N'), u32('C'), u32('F'), u32('R'), f32('scale')],
  sizes: ({ N, C, V }) => ({ order_N: N, segments: segmentsLength(N), dx_NC: N * C, dtoken_VC: V * C }),
  source: (_family, { C }) =>
    laneSource({ name: 'embed.backwardToken', code, width: laneWidth(C) }, (dims) => dims.N * dims.C),
  cpu({ order_N, segments, dx_NC, dtoken_VC }, { C, F, R, scale }) {
    for (let s = 0; s < at(segments, 0); s++) {
      const [id, from, to] = [at(segments, 1 + 3 * s), at(segments, 2 + 3 * s), at(segments, 3 + 3 * s)];
      const row = id - F;
      if (row < 0 || row >= R) continue;
      for (let c = 0; c < C; c++) {
        let sum = 0;
        for (let i = from; i < to; i++) sum += at(dx_NC, at(order_N, i) * C + c);
        dtoken_VC[row * C + c] = at(dtoken_VC, row * C + c) + scale * sum;
      }
    }
  },
  cases: [
    { N: 1, C: 1, V: 1, F: 0, R: 1, scale: 1 },
    { N: 14, C: 5, V: 3, F: 1, R: 1, scale: 5.5 },
    { N: 74, C: 60, V: 50, F: 0, R: 50, scale: 1 },
    { N: 256, C: 128, V: 256, F: 0, R: 128, scale: 2.5 },
  ],
  fill(arrays, { N, V }, random) {
    // Squared: low ids come often, most of the high ones never, as in text.
    const { order, segments } = sortTokens(Array.from({ length: N }, () => Math.floor(random() ** 2 * V)));
    arrays.order_N.set(order);
    arrays.segments.set(segments);
  },
  tolerance: { absolute: 4e-6, relative: 1e-6 },
  cost: ({ N, C }) => ({ flops: N * C, bytes: 4 * 3 * N * C }),
});
