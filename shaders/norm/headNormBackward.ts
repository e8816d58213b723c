/**
 * Gradient of the normalisation of heads for its input: with x̂ = x·r and g = dy·(offset + weight), dx = r·(g − x̂·mean(g·x̂))
 * for each head of queries and keys; heads of values pass dy on.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './headNormBackward.wgsl?raw';
import { fillHeadStat, HEAD_TEAM, headCount, headNormForward, headNormSizes } from './headNormForward.ts';

export const headNormBackward = kernel({
  name: 'headNorm.backward',
  tensors: [
    half(read('x_NED')),
    by(1, read('stat_NG')),
    half(read('weight_2D')),
    half(read('dy_NED')),
    half(readWrite('dx_NED')),
  ],
  dims: [u32('N'), u32('H'), u32('K'), u32('D'), f32('offset')],
  sizes: (dims) => headNormSizes(dims),
  source: (family, { D }) =>
    rowSource({ name: 'headNorm.backward', code, width: laneWidth(D), team: HEAD_TEAM }, family, headCount),
  cpu({ x_NED, stat_NG, weight_2D, dy_NED, dx_NED }, { N, H, K, D, offset }) {
    for (let n = 0; n < N; n++) {
      for (let e = 0; e < H + 2 * K; e++) {
        const first = (n * (H + 2 * K) + e) * D;
        if (e >= H + K) {
          for (let d = 0; d < D; d++) dx_NED[first + d] = at(dy_NED, first + d);
          continue;
        }
        const r = at(stat_NG, n * (H + K) + e);
        const weight = e < H ? 0 : D;
        const g = (d: number): number => at(dy_NED, first + d) * (offset + at(weight_2D, weight + d));
        let mean = 0;
        for (let d = 0; d < D; d++) mean += (g(d) * at(x_NED, first + d) * r) / D;
        for (let d = 0; d < D; d++) dx_NED[first + d] = r * (g(d) - at(x_NED, first + d) * r * mean);
      }
    }
  },
  cases: headNormForward.cases,
  fill: fillHeadStat,
  tolerance: { absolute: 4e-6, relative: 3e-6 },
  cost: ({ N, H, K, D }) => ({ flops: 9 * N * (H + K) * D, bytes: 4 * 3 * N * (H + 2 * K) * D }),
});
