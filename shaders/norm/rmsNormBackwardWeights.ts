/** Gradient of RMS normalisation for its weight, added: dweight_C += Σ_n dy·x·r, in a fixed order of the rows. */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { columnSource, laneWidth } from '../kernel/lanes.ts';
import { by, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './rmsNormBackwardWeights.wgsl?raw';
import { fillInverseRms } from './rmsNormForward.ts';

export const rmsNormBackwardWeights = kernel({
  name: 'rmsNorm.backwardWeights',
  tensors: [half(read('x_NC')), by(1, read('stat_N')), half(read('dy_NC')), readWrite('dweight_C')],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C }) => ({ x_NC: N * C, stat_N: N, dy_NC: N * C, dweight_C: C }),
  source: (family, { C }) => columnSource({ name: 'rmsNorm.backwardWeights', code, width: laneWidth(C) }, family),
  cpu({ x_NC, stat_N, dy_NC, dweight_C }, { N, C }) {
    for (let c = 0; c < C; c++) {
      let sum = at(dweight_C, c);
      for (let n = 0; n < N; n++) sum += at(dy_NC, n * C + c) * at(x_NC, n * C + c) * at(stat_N, n);
      dweight_C[c] = sum;
    }
  },
  cases: [
    { N: 1, C: 1 },
    { N: 5, C: 7 },
    { N: 259, C: 60 },
    { N: 256, C: 128 },
  ],
  fill: fillInverseRms,
  tolerance: { absolute: 3e-5, relative: 2e-6 },
  cost: ({ N, C }) => ({ flops: 3 * N * C, bytes: 4 * 2 * N * C }),
});
