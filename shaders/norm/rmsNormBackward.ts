/**
 * Gradient of RMS normalisation for its input. With x̂ = x·r, g = dy·(offset + weight) and y = x̂·(offset + weight), r depends on every element
 * of the row, which takes one projection off g:
 *   dx = r·(g − x̂·mean(g·x̂)).
 * `accumulate` 1 adds to what dx holds (the residual stream's gradient), 0 sets it.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './rmsNormBackward.wgsl?raw';
import { fillInverseRms } from './rmsNormForward.ts';

export const rmsNormBackward = kernel({
  name: 'rmsNorm.backward',
  tensors: [
    half(read('x_NC')),
    by(1, read('stat_N')),
    half(read('weight_C')),
    half(read('dy_NC')),
    half(readWrite('dx_NC')),
  ],
  dims: [u32('N'), u32('C'), f32('offset'), u32('accumulate')],
  sizes: ({ N, C }) => ({ x_NC: N * C, stat_N: N, weight_C: C, dy_NC: N * C, dx_NC: N * C }),
  source: (family, { C }) => rowSource({ name: 'rmsNorm.backward', code, width: laneWidth(C) }, family, ({ N }) => N),
  cpu({ x_NC, stat_N, weight_C, dy_NC, dx_NC }, { N, C, offset, accumulate }) {
    for (let n = 0; n < N; n++) {
      const r = at(stat_N, n);
      let mean = 0;
      const g = (c: number): number => at(dy_NC, n * C + c) * (offset + at(weight_C, c));
      for (let c = 0; c < C; c++) mean += (g(c) * at(x_NC, n * C + c) * r) / C;
      for (let c = 0; c < C; c++) {
        const value = r * (g(c) - at(x_NC, n * C + c) * r * mean);
        dx_NC[n * C + c] = accumulate ? at(dx_NC, n * C + c) + value : value;
      }
    }
  },
  cases: [
    { N: 1, C: 1, offset: 0, accumulate: 0 },
    { N: 5, C: 7, offset: 1, accumulate: 1 },
    { N: 37, C: 60, offset: 0, accumulate: 0 },
    { N: 256, C: 128, offset: 1, accumulate: 1 },
    { N: 3, C: 768, offset: 0, accumulate: 1 },
  ],
  fill: fillInverseRms,
  tolerance: { absolute: 4e-6, relative: 3e-6 },
  cost: ({ N, C }) => ({ flops: 9 * N * C, bytes: 4 * 4 * N * C }),
});
