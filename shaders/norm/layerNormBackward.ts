/**
 * Gradient of layer normalisation for its input. With x̂ = (x − mean)·r, g = dy·weight and y = x̂·weight + bias,
 * mean and r depend on every element of the row, which takes two projections off g:
 *   dx = r·(g − mean(g) − x̂·mean(g·x̂)).
 * `accumulate` 1 adds to what dx holds (the residual stream's gradient), 0 sets it.
 */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, rowVariant } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './layerNormBackward.wgsl?raw';
import { fillStat } from './layerNormForward.ts';

export const layerNormBackward: Kernel = {
  name: 'layerNorm.backward',
  tensors: [half(read('x')), read('stat'), half(read('weight')), half(read('dy')), half(readWrite('dx'))],
  dims: [u32('N'), u32('C'), u32('accumulate')],
  sizes: ({ N, C }) => ({ x: N * C, stat: N * 2, weight: C, dy: N * C, dx: N * C }),
  variant: (family, { C }) => rowVariant({ name: 'layerNorm.backward', code, lanes: lanesOf(C) }, family, ({ N }) => N),
  cpu: layerNormBackwardCpu,
  cases: [
    { N: 1, C: 1, accumulate: 0 },
    { N: 5, C: 7, accumulate: 1 },
    { N: 37, C: 60, accumulate: 0 },
    { N: 256, C: 128, accumulate: 1 },
    { N: 3, C: 768, accumulate: 1 },
  ],
  fill: fillStat,
  tolerance: { absolute: 4e-6, relative: 3e-6 },
  cost: ({ N, C }) => ({ flops: 12 * N * C, bytes: 4 * 4 * N * C }),
};

function layerNormBackwardCpu({ x, stat, weight, dy, dx }: Arrays, { N, C, accumulate }: Dims): void {
  for (let n = 0; n < N; n++) {
    const [mean, r] = [stat[n * 2], stat[n * 2 + 1]];
    let meanG = 0;
    let meanGx = 0;
    for (let c = 0; c < C; c++) {
      const g = dy[n * C + c] * weight[c];
      meanG += g / C;
      meanGx += (g * (x[n * C + c] - mean) * r) / C;
    }
    for (let c = 0; c < C; c++) {
      const g = dy[n * C + c] * weight[c];
      const value = r * (g - meanG - (x[n * C + c] - mean) * r * meanGx);
      dx[n * C + c] = accumulate ? dx[n * C + c] + value : value;
    }
  }
}
