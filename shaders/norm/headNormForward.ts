/**
 * RMS normalisation of each head of queries and keys (Henry et al. 2020), before they are turned: y = x·r·(offset + weight)
 * with r = 1/√(mean(x²) + epsilon) over the D elements of a head. Queries have one weight, keys the other, side by side in
 * weight_2D; heads of values are copied. `stat` keeps r of each of the G = H + K heads of a row for the backward.
 */
import { at } from '../../swarm/base.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './headNormForward.wgsl?raw';

/** Of invocations that share a head on a GPU: a head is short. */
export const HEAD_TEAM = 32;

type HeadNormDims = Dims<'N' | 'H' | 'K' | 'D' | 'epsilon' | 'offset'>;

export const headNormSizes = ({ N, H, K, D }: Dims<'N' | 'H' | 'K' | 'D'>) => ({
  x_NED: N * (H + 2 * K) * D,
  weight_2D: 2 * D,
  y_NED: N * (H + 2 * K) * D,
  stat_NG: N * (H + K),
  dy_NED: N * (H + 2 * K) * D,
  dx_NED: N * (H + 2 * K) * D,
  dweight_2D: 2 * D,
});

/** Invocation rows: all heads of all rows. */
export const headCount = ({ N, H, K }: Dims<'N' | 'H' | 'K'>): number => N * (H + 2 * K);

export const headNormForward = kernel({
  name: 'headNorm.forward',
  tensors: [half(read('x_NED')), half(read('weight_2D')), half(readWrite('y_NED')), by(1, readWrite('stat_NG'))],
  dims: [u32('N'), u32('H'), u32('K'), u32('D'), f32('epsilon'), f32('offset')],
  sizes: (dims) => headNormSizes(dims),
  source: (family, { D }) =>
    rowSource({ name: 'headNorm.forward', code, width: laneWidth(D), team: HEAD_TEAM }, family, headCount),
  cpu: headNormForwardCpu,
  cases: [
    { N: 1, H: 1, K: 1, D: 1, epsilon: 1e-5, offset: 0 },
    { N: 5, H: 3, K: 1, D: 7, epsilon: 1e-5, offset: 1 },
    { N: 37, H: 4, K: 2, D: 20, epsilon: 1e-6, offset: 0 },
    { N: 64, H: 4, K: 4, D: 32, epsilon: 1e-6, offset: 1 },
    { N: 3, H: 2, K: 1, D: 256, epsilon: 1e-6, offset: 0 },
  ],
  tolerance: { absolute: 2e-6, relative: 3e-6 },
  cost: ({ N, H, K, D }) => ({ flops: 4 * N * (H + K) * D, bytes: 4 * 2 * N * (H + 2 * K) * D }),
});

function headNormForwardCpu(
  { x_NED, weight_2D, y_NED, stat_NG }: Arrays<'x_NED' | 'weight_2D' | 'y_NED' | 'stat_NG'>,
  { N, H, K, D, epsilon, offset }: HeadNormDims,
): void {
  for (let n = 0; n < N; n++) {
    for (let e = 0; e < H + 2 * K; e++) {
      const first = (n * (H + 2 * K) + e) * D;
      if (e >= H + K) {
        for (let d = 0; d < D; d++) y_NED[first + d] = at(x_NED, first + d);
        continue;
      }
      let mean = 0;
      for (let d = 0; d < D; d++) mean += at(x_NED, first + d) ** 2 / D;
      const r = 1 / Math.sqrt(mean + epsilon);
      const weight = e < H ? 0 : D;
      for (let d = 0; d < D; d++) y_NED[first + d] = at(x_NED, first + d) * r * (offset + at(weight_2D, weight + d));
      stat_NG[n * (H + K) + e] = r;
    }
  }
}

/** Gives the cases of the backward kernels a `stat` that belongs to their x. */
export function fillHeadStat(
  { x_NED, stat_NG }: Arrays<'x_NED' | 'stat_NG'>,
  { N, H, K, D }: Dims<'N' | 'H' | 'K' | 'D'>,
): void {
  const unused = new Float32Array(x_NED.length);
  const dims = { N, H, K, D, epsilon: 1e-5, offset: 0 };
  headNormForwardCpu({ x_NED, weight_2D: new Float32Array(2 * D), y_NED: unused, stat_NG }, dims);
}
