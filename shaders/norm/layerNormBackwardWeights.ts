/**
 * Gradient of layer normalisation for its parameters, added to what they hold:
 * dweight_C += Σ_n dy·x̂ and dbias_C += Σ_n dy with x̂ = (x − mean)·r, in a fixed order of the rows.
 */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { columnVariant, lanesOf } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './layerNormBackwardWeights.wgsl?raw';
import { fillStat } from './layerNormForward.ts';

export const layerNormBackwardWeights: Kernel = {
  name: 'layerNorm.backwardWeights',
  tensors: [half(read('x')), read('stat'), half(read('dy')), readWrite('dweight'), readWrite('dbias')],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C }) => ({ x: N * C, stat: N * 2, dy: N * C, dweight: C, dbias: C }),
  variant: (family, { C }) => columnVariant({ name: 'layerNorm.backwardWeights', code, lanes: lanesOf(C) }, family),
  cpu: layerNormBackwardWeightsCpu,
  cases: [
    { N: 1, C: 1 },
    { N: 5, C: 7 },
    { N: 259, C: 60 },
    { N: 256, C: 128 },
  ],
  fill: fillStat,
  tolerance: { absolute: 3e-5, relative: 2e-6 },
  cost: ({ N, C }) => ({ flops: 5 * N * C, bytes: 4 * 2 * N * C }),
};

function layerNormBackwardWeightsCpu({ x, stat, dy, dweight, dbias }: Arrays, { N, C }: Dims): void {
  for (let c = 0; c < C; c++) {
    let weightSum = dweight[c];
    let biasSum = dbias[c];
    for (let n = 0; n < N; n++) {
      weightSum += dy[n * C + c] * (x[n * C + c] - stat[n * 2]) * stat[n * 2 + 1];
      biasSum += dy[n * C + c];
    }
    dweight[c] = weightSum;
    dbias[c] = biasSum;
  }
}
