/** Token embedding without positions (rotary ones come later): x_NC[n] = token_VC[ids_N[n]]. Pieces as in embedForward.ts. */

import { at } from '../../swarm/base.ts';
import { fillBelow } from '../kernel/fill.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import { embedForward } from './embedForward.ts';
import code from './embedTokens.wgsl?raw';

export const embedTokens = kernel({
  name: 'embed.tokens',
  tensors: [read('ids_N', 'u32'), half(read('token_VC')), half(readWrite('x_NC'))],
  dims: [u32('N'), u32('C'), u32('F'), u32('R')],
  sizes: ({ N, C, V }) => ({ ids_N: N, token_VC: V * C, x_NC: N * C }),
  source: (_family, { C }) =>
    laneSource({ name: 'embed.tokens', code, width: laneWidth(C) }, (dims) => dims.N * dims.C),
  cpu({ ids_N, token_VC, x_NC }, { N, C, F, R }) {
    for (let n = 0; n < N; n++) {
      const row = at(ids_N, n) - F;
      if (row < 0 || row >= R) continue;
      for (let c = 0; c < C; c++) x_NC[n * C + c] = at(token_VC, row * C + c);
    }
  },
  cases: embedForward.cases,
  fill: ({ ids_N }, { V }, random) => fillBelow(ids_N, V, random),
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ N, C }) => ({ flops: 0, bytes: 4 * (2 * N * C + N) }),
});
