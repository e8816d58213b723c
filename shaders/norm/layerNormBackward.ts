/**
 * Gradient of layer normalisation for its input. With x̂ = (x − mean)·r, g = dy·weight and y = x̂·weight + bias,
 * mean and r depend on every element of the row, which takes two projections off g:
 *   dx = r·(g − mean(g) − x̂·mean(g·x̂)).
 * `accumulate` 1 adds to what dx holds (the residual stream's gradient), 0 sets it.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource } from '../kernel/lanes.ts';
import { by, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './layerNormBackward.wgsl?raw';
import { fillStat } from './layerNormForward.ts';

export const layerNormBackward = kernel({
  name: 'layerNorm.backward',
  tensors: [
    half(read('x_NC')),
    by(2, read('stat_N2')),
    half(read('weight_C')),
    half(read('dy_NC')),
    half(readWrite('dx_NC')),
  ],
  dims: [u32('N'), u32('C'), u32('accumulate')],
  sizes: ({ N, C }) => ({ x_NC: N * C, stat_N2: N * 2, weight_C: C, dy_NC: N * C, dx_NC: N * C }),
  source: (family, { C }) => rowSource({ name: 'layerNorm.backward', code, width: laneWidth(C) }, family, ({ N }) => N),
  cpu({ x_NC, stat_N2, weight_C, dy_NC, dx_NC }, { N, C, accumulate }) {
    for (let n = 0; n < N; n++) {
      const [mean, r] = [at(stat_N2, n * 2), at(stat_N2, n * 2 + 1)];
      let meanG = 0;
      let meanGx = 0;
      for (let c = 0; c < C; c++) {
        const g = at(dy_NC, n * C + c) * at(weight_C, c);
        meanG += g / C;
        meanGx += (g * (at(x_NC, n * C + c) - mean) * r) / C;
      }
      for (let c = 0; c < C; c++) {
        const g = at(dy_NC, n * C + c) * at(weight_C, c);
        const value = r * (g - meanG - (at(x_NC, n * C + c) - mean) * r * meanGx);
        dx_NC[n * C + c] = accumulate ? at(dx_NC, n * C + c) + value : value;
      }
    }
  },
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
});
