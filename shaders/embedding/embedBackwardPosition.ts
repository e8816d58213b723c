/** Gradient of the position table: dposition_TC[t] += Σ over the samples b of dx_NC[b·T + t]. */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './embedBackwardPosition.wgsl?raw';

export const embedBackwardPosition = kernel({
  name: 'embed.backwardPosition',
  tensors: [half(read('dx_NC')), readWrite('dposition_TC')],
  dims: [u32('N'), u32('T'), u32('C')],
  sizes: ({ N, T, C }) => ({ dx_NC: N * C, dposition_TC: T * C }),
  source: (_family, { C }) =>
    laneSource({ name: 'embed.backwardPosition', code, width: laneWidth(C) }, (dims) => dims.T * dims.C),
  cpu({ dx_NC, dposition_TC }, { N, T, C }) {
    for (let t = 0; t < T; t++) {
      for (let c = 0; c < C; c++) {
        let sum = at(dposition_TC, t * C + c);
        for (let n = t; n < N; n += T) sum += at(dx_NC, n * C + c);
        dposition_TC[t * C + c] = sum;
      }
    }
  },
  cases: [
    { N: 1, T: 1, C: 1 },
    { N: 21, T: 7, C: 5 },
    { N: 259, T: 37, C: 60 },
    { N: 256, T: 64, C: 128 },
  ],
  tolerance: { absolute: 2e-6, relative: 1e-6 },
  cost: ({ N, T, C }) => ({ flops: N * C, bytes: 4 * (N + 2 * T) * C }),
});
