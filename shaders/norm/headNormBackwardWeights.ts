/**
 * Gradients of the weights of the normalisation of heads, added: dweight_2D[0] += Σ_n Σ_h dy·x·r over heads of queries,
 * dweight_2D[1] the same over heads of keys, in a fixed order of rows and heads.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { columnSource, laneWidth } from '../kernel/lanes.ts';
import { by, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './headNormBackwardWeights.wgsl?raw';
import { fillHeadStat, headNormSizes } from './headNormForward.ts';

export const headNormBackwardWeights = kernel({
  name: 'headNorm.backwardWeights',
  tensors: [half(read('x_NED')), by(1, read('stat_NG')), half(read('dy_NED')), readWrite('dweight_2D')],
  // C: the columns that are summed, 2·D.
  dims: [u32('N'), u32('H'), u32('K'), u32('C')],
  sizes: ({ N, H, K, C }) => headNormSizes({ N, H, K, D: C / 2 }),
  source: (family, { C }) => columnSource({ name: 'headNorm.backwardWeights', code, width: laneWidth(C / 2) }, family),
  cpu({ x_NED, stat_NG, dy_NED, dweight_2D }, { N, H, K, C }) {
    const D = C / 2;
    for (let c = 0; c < C; c++) {
      const [first, end] = c < D ? [0, H] : [H, H + K];
      let sum = at(dweight_2D, c);
      for (let n = 0; n < N; n++)
        for (let e = first; e < end; e++) {
          const i = (n * (H + 2 * K) + e) * D + (c % D);
          sum += at(dy_NED, i) * at(x_NED, i) * at(stat_NG, n * (H + K) + e);
        }
      dweight_2D[c] = sum;
    }
  },
  cases: [
    { N: 1, H: 1, K: 1, C: 2 },
    { N: 5, H: 3, K: 1, C: 14 },
    { N: 37, H: 4, K: 2, C: 40 },
    { N: 259, H: 4, K: 2, C: 32 },
  ],
  fill: (arrays, { N, H, K, C }) => fillHeadStat(arrays, { N, H, K, D: C / 2 }),
  tolerance: { absolute: 6e-5, relative: 2e-6 },
  cost: ({ N, H, K, C }) => ({ flops: (3 * N * (H + K) * C) / 2, bytes: 4 * N * (H + K) * C }),
});
