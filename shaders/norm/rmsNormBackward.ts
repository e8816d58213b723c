/**
 * Gradient of RMS normalisation for its input. With x̂ = x·r, g = dy·weight and y = x̂·weight, r depends on every element
 * of the row, which takes one projection off g:
 *   dx = r·(g − x̂·mean(g·x̂)).
 * `accumulate` 1 adds to what dx holds (the residual stream's gradient), 0 sets it.
 */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, rowVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './rmsNormBackward.wgsl?raw';
import { fillInverseRms } from './rmsNormForward.ts';

export const rmsNormBackward: Kernel = {
  name: 'rmsNorm.backward',
  tensors: [half(read('x')), read('stat'), half(read('weight')), half(read('dy')), half(readWrite('dx'))],
  dims: [u32('N'), u32('C'), u32('accumulate')],
  sizes: ({ N, C }) => ({ x: N * C, stat: N, weight: C, dy: N * C, dx: N * C }),
  variant: (family, { C }) => rowVariant({ name: 'rmsNorm.backward', code, lanes: lanesOf(C) }, family, ({ N }) => N),
  cpu: rmsNormBackwardCpu,
  cases: [
    { N: 1, C: 1, accumulate: 0 },
    { N: 5, C: 7, accumulate: 1 },
    { N: 37, C: 60, accumulate: 0 },
    { N: 256, C: 128, accumulate: 1 },
    { N: 3, C: 768, accumulate: 1 },
  ],
  fill: fillInverseRms,
  tolerance: { absolute: 4e-6, relative: 3e-6 },
  cost: ({ N, C }) => ({ flops: 9 * N * C, bytes: 4 * 4 * N * C }),
};

function rmsNormBackwardCpu({ x, stat, weight, dy, dx }: Arrays, { N, C, accumulate }: Dims): void {
  for (let n = 0; n < N; n++) {
    const r = stat[n];
    let mean = 0;
    for (let c = 0; c < C; c++) mean += (dy[n * C + c] * weight[c] * x[n * C + c] * r) / C;
    for (let c = 0; c < C; c++) {
      const value = r * (dy[n * C + c] * weight[c] - x[n * C + c] * r * mean);
      dx[n * C + c] = accumulate ? dx[n * C + c] + value : value;
    }
  }
}
