/**
 * Root-mean-square normalisation (Zhang & Sennrich 2019): y = x·r·weight, r = 1/√(mean(x²) + epsilon), for each row of
 * x_NC. `stat` keeps r of each row for the backward.
 */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, rowVariant } from '../lanes.ts';
import { f32, half, read, readWrite, u32 } from '../slots.ts';
import code from './rmsNormForward.wgsl?raw';

export const rmsNormForward: Kernel = {
  name: 'rmsNorm.forward',
  tensors: [half(read('x')), half(read('weight')), half(readWrite('y')), readWrite('stat')],
  dims: [u32('N'), u32('C'), f32('epsilon')],
  sizes: ({ N, C }) => ({ x: N * C, weight: C, y: N * C, stat: N }),
  variant: (family, { C }) => rowVariant({ name: 'rmsNorm.forward', code, lanes: lanesOf(C) }, family, ({ N }) => N),
  cpu: rmsNormForwardCpu,
  cases: [
    { N: 1, C: 1, epsilon: 1e-5 },
    { N: 5, C: 7, epsilon: 1e-5 },
    { N: 37, C: 60, epsilon: 1e-6 },
    { N: 256, C: 128, epsilon: 1e-5 },
    { N: 3, C: 768, epsilon: 1e-6 },
  ],
  tolerance: { absolute: 2e-6, relative: 3e-6 },
  cost: ({ N, C }) => ({ flops: 4 * N * C, bytes: 4 * 2 * N * C }),
};

function rmsNormForwardCpu({ x, weight, y, stat }: Arrays, { N, C, epsilon }: Dims): void {
  for (let n = 0; n < N; n++) {
    let mean = 0;
    for (let c = 0; c < C; c++) mean += x[n * C + c] ** 2 / C;
    const r = 1 / Math.sqrt(mean + epsilon);
    for (let c = 0; c < C; c++) y[n * C + c] = x[n * C + c] * r * weight[c];
    stat[n] = r;
  }
}

/** Gives the cases of the backward kernels a `stat` that belongs to their x. */
export function fillInverseRms({ x, stat }: Arrays, { N, C }: Dims): void {
  const unused = new Float32Array(N * C);
  rmsNormForwardCpu({ x, weight: unused, y: unused, stat }, { N, C, epsilon: 1e-5 });
}
