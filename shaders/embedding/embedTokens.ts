/** Token embedding without positions (rotary ones come later): x_NC[n] = token_VC[ids_N[n]]. */

import { fillBelow } from '../fill.ts';
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import { embedForward } from './embedForward.ts';
import code from './embedTokens.wgsl?raw';

export const embedTokens: Kernel = {
  name: 'embed.tokens',
  tensors: [read('ids', 'u32'), half(read('token')), half(readWrite('x'))],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C, V }) => ({ ids: N, token: V * C, x: N * C }),
  variant: (_family, { C }) =>
    laneVariant({ name: 'embed.tokens', code, lanes: lanesOf(C) }, (dims) => dims.N * dims.C),
  cpu: embedTokensCpu,
  cases: embedForward.cases,
  fill: ({ ids }, { V }, random) => fillBelow(ids, V, random),
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ N, C }) => ({ flops: 0, bytes: 4 * (2 * N * C + N) }),
};

function embedTokensCpu({ ids, token, x }: Arrays, { N, C }: Dims): void {
  for (let n = 0; n < N; n++) for (let c = 0; c < C; c++) x[n * C + c] = token[ids[n] * C + c];
}
