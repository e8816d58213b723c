/**
 * Layer normalisation (Ba et al. 2016): y = (x − mean)·r·weight + bias, r = 1/√(variance + epsilon), for each row of
 * x_NC. `stat` keeps (mean, r) of each row for the backward.
 */
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, rowVariant } from '../lanes.ts';
import { f32, half, read, readWrite, u32 } from '../slots.ts';
import code from './layerNormForward.wgsl?raw';

export const layerNormForward: Kernel = {
  name: 'layerNorm.forward',
  tensors: [half(read('x')), half(read('weight')), half(read('bias')), half(readWrite('y')), readWrite('stat')],
  dims: [u32('N'), u32('C'), f32('epsilon')],
  sizes: ({ N, C }) => ({ x: N * C, weight: C, bias: C, y: N * C, stat: N * 2 }),
  variant: (family, { C }) => rowVariant({ name: 'layerNorm.forward', code, lanes: lanesOf(C) }, family, ({ N }) => N),
  cpu: layerNormForwardCpu,
  cases: [
    { N: 1, C: 1, epsilon: 1e-5 },
    { N: 5, C: 7, epsilon: 1e-5 },
    { N: 37, C: 60, epsilon: 1e-5 },
    { N: 256, C: 128, epsilon: 1e-5 },
    { N: 3, C: 768, epsilon: 1e-6 },
  ],
  fill({ x }, { N, C }) {
    // Rows far from zero: a variance from E[x²] − mean² would fail here.
    for (let n = 0; n < N; n++) for (let c = 0; c < C; c++) x[n * C + c] += 10 * (n % 3);
  },
  // The mean of a row near 20 has an error of about 1e-6, and y that error times r·weight.
  tolerance: { absolute: 1e-5, relative: 3e-6 },
  cost: ({ N, C }) => ({ flops: 8 * N * C, bytes: 4 * 2 * N * C }),
};

function layerNormForwardCpu({ x, weight, bias, y, stat }: Arrays, { N, C, epsilon }: Dims): void {
  for (let n = 0; n < N; n++) {
    let mean = 0;
    for (let c = 0; c < C; c++) mean += x[n * C + c] / C;
    let variance = 0;
    for (let c = 0; c < C; c++) variance += (x[n * C + c] - mean) ** 2 / C;
    const r = 1 / Math.sqrt(variance + epsilon);
    for (let c = 0; c < C; c++) y[n * C + c] = (x[n * C + c] - mean) * r * weight[c] + bias[c];
    stat[n * 2] = mean;
    stat[n * 2 + 1] = r;
  }
}

/** Gives the cases of the backward kernels a `stat` that belongs to their x. */
export function fillStat({ x, stat }: Arrays, { N, C }: Dims): void {
  const unused = new Float32Array(N * C);
  layerNormForwardCpu({ x, weight: unused, bias: unused, y: unused, stat }, { N, C, epsilon: 1e-5 });
}
