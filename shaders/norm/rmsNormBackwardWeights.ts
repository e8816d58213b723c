/** Gradient of RMS normalisation for its weight, added: dweight_C += Σ_n dy·x·r, in a fixed order of the rows. */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { columnVariant, lanesOf } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './rmsNormBackwardWeights.wgsl?raw';
import { fillInverseRms } from './rmsNormForward.ts';

export const rmsNormBackwardWeights: Kernel = {
  name: 'rmsNorm.backwardWeights',
  tensors: [half(read('x')), read('stat'), half(read('dy')), readWrite('dweight')],
  dims: [u32('N'), u32('C')],
  sizes: ({ N, C }) => ({ x: N * C, stat: N, dy: N * C, dweight: C }),
  variant: (family, { C }) => columnVariant({ name: 'rmsNorm.backwardWeights', code, lanes: lanesOf(C) }, family),
  cpu: rmsNormBackwardWeightsCpu,
  cases: [
    { N: 1, C: 1 },
    { N: 5, C: 7 },
    { N: 259, C: 60 },
    { N: 256, C: 128 },
  ],
  fill: fillInverseRms,
  tolerance: { absolute: 3e-5, relative: 2e-6 },
  cost: ({ N, C }) => ({ flops: 3 * N * C, bytes: 4 * 2 * N * C }),
};

function rmsNormBackwardWeightsCpu({ x, stat, dy, dweight }: Arrays, { N, C }: Dims): void {
  for (let c = 0; c < C; c++) {
    let sum = dweight[c];
    for (let n = 0; n < N; n++) sum += dy[n * C + c] * x[n * C + c] * stat[n];
    dweight[c] = sum;
  }
}
