/**
 * Token embedding without positions (rotary ones come later): x_NC[n] = scale·token_VC[ids_N[n]]. Pieces as in
 * embedForward.ts.
 */

import { at } from '../../swarm/base.ts';
import { fillBelow } from '../kernel/fill.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import { embedForward } from './embedForward.ts';
import code from './embedTokens.wgsl?raw';

export const embedTokens = kernel({
  name: 'embed.tokens',
  tensors: [read('ids_N', 'u32'), half(read('token_VC')), half(readWrite('x_NC'))],
  dims: [u32('N'), u32('C'), u32('F'), u32('R'), f32('scale')],
  sizes: ({ N, C, V }) => ({ ids_N: N, token_VC: V * C, x_NC: N * C }),
  source: (_family, { C }) =>
    laneSource({ name: 'embed.tokens', code, width: laneWidth(C) }, (dims) => dims.N * dims.C),
  cpu({ ids_N, token_VC, x_NC }, { N, C, F, R, scale }) {
    for (let n = 0; n < N; n++) {
      const row = at(ids_N, n) - F;
      if (row < 0 || row >= R) continue;
      for (let c = 0; c < C; c++) x_NC[n * C + c] = scale * at(token_VC, row * C + c);
    }
  },
  cases: embedForward.cases.map((dims, i) => ({ ...dims, scale: i % 2 === 0 ? 1 : 5.5 })),
  fill: ({ ids_N }, { V }, random) => fillBelow(ids_N, V, random),
  // The scale as a float, and one rounding.
  tolerance: { absolute: 0, relative: 2e-7 },
  cost: ({ N, C }) => ({ flops: 0, bytes: 4 * (2 * N * C + N) }),
});
