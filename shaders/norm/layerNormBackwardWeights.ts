/**
 * Gradient of layer normalisation for its parameters, added to what they hold:
 * dweight_C += Σ_n dy·x̂ and dbias_C += Σ_n dy with x̂ = (x − mean)·r, in a fixed order of the rows.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { columnSource, laneWidth } from '../kernel/lanes.ts';
import { by, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './layerNormBackwardWeights.wgsl?raw';
import { fillStat } from './layerNormForward.ts';

export const layerNormBackwardWeights = kernel({
  name: 'layerNorm.backwardWeights',
  tensors: [
    half(read('x_NC')),
    by(2, read('stat_N2')),
    half(read('dy_NC')),
    readWrite('dweight_C'),
    readWrite('dbias_C'),
  ],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C }) => ({ x_NC: N * C, stat_N2: N * 2, dy_NC: N * C, dweight_C: C, dbias_C: C }),
  source: (family, { C }) => columnSource({ name: 'layerNorm.backwardWeights', code, width: laneWidth(C) }, family),
  cpu({ x_NC, stat_N2, dy_NC, dweight_C, dbias_C }, { N, C }) {
    for (let c = 0; c < C; c++) {
      let weightSum = at(dweight_C, c);
      let biasSum = at(dbias_C, c);
      for (let n = 0; n < N; n++) {
        weightSum += at(dy_NC, n * C + c) * (at(x_NC, n * C + c) - at(stat_N2, n * 2)) * at(stat_N2, n * 2 + 1);
        biasSum += at(dy_NC, n * C + c);
      }
      dweight_C[c] = weightSum;
      dbias_C[c] = biasSum;
    }
  },
  cases: [
    { N: 1, C: 1 },
    { N: 5, C: 7 },
    { N: 259, C: 60 },
    { N: 256, C: 128 },
  ],
  fill: fillStat,
  tolerance: { absolute: 3e-5, relative: 2e-6 },
  cost: ({ N, C }) => ({ flops: 5 * N * C, bytes: 4 * 2 * N * C }),
});
