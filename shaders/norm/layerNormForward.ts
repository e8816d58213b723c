/**
 * Layer normalisation (Ba et al. 2016): y = (x − mean)·r·weight + bias, r = 1/√(variance + epsilon), for each row of
 * x_NC. `stat` keeps (mean, r) of each row for the backward.
 */
import { at } from '../../swarm/base.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './layerNormForward.wgsl?raw';

export const layerNormForward = kernel({
  name: 'layerNorm.forward',
  tensors: [
    half(read('x_NC')),
    half(read('weight_C')),
    half(read('bias_C')),
    half(readWrite('y_NC')),
    by(2, readWrite('stat_N2')),
  ],
  dims: [u32('N'), u32('C'), f32('epsilon')],
  sizes: ({ N, C }) => ({ x_NC: N * C, weight_C: C, bias_C: C, y_NC: N * C, stat_N2: N * 2 }),
  source: (family, { C }) => rowSource({ name: 'layerNorm.forward', code, width: laneWidth(C) }, family, ({ N }) => N),
  cpu: layerNormForwardCpu,
  cases: [
    { N: 1, C: 1, epsilon: 1e-5 },
    { N: 5, C: 7, epsilon: 1e-5 },
    { N: 37, C: 60, epsilon: 1e-5 },
    { N: 256, C: 128, epsilon: 1e-5 },
    { N: 3, C: 768, epsilon: 1e-6 },
  ],
  fill({ x_NC }, { N, C }) {
    // Rows far from zero: a variance from E[x²] − mean² would fail here.
    for (let n = 0; n < N; n++) for (let c = 0; c < C; c++) x_NC[n * C + c] = at(x_NC, n * C + c) + 10 * (n % 3);
  },
  // The mean of a row near 20 has an error of about 1e-6, and y that error times r·weight.
  tolerance: { absolute: 1e-5, relative: 3e-6 },
  cost: ({ N, C }) => ({ flops: 8 * N * C, bytes: 4 * 2 * N * C }),
});

function layerNormForwardCpu(
  { x_NC, weight_C, bias_C, y_NC, stat_N2 }: Arrays<'x_NC' | 'weight_C' | 'bias_C' | 'y_NC' | 'stat_N2'>,
  { N, C, epsilon }: Dims<'N' | 'C' | 'epsilon'>,
): void {
  for (let n = 0; n < N; n++) {
    let mean = 0;
    for (let c = 0; c < C; c++) mean += at(x_NC, n * C + c) / C;
    let variance = 0;
    for (let c = 0; c < C; c++) variance += (at(x_NC, n * C + c) - mean) ** 2 / C;
    const r = 1 / Math.sqrt(variance + epsilon);
    for (let c = 0; c < C; c++) y_NC[n * C + c] = (at(x_NC, n * C + c) - mean) * r * at(weight_C, c) + at(bias_C, c);
    stat_N2[n * 2] = mean;
    stat_N2[n * 2 + 1] = r;
  }
}

/** Gives the cases of the backward kernels a `stat` that belongs to their x. */
export function fillStat({ x_NC, stat_N2 }: Arrays<'x_NC' | 'stat_N2'>, { N, C }: Dims<'N' | 'C'>): void {
  const unused = new Float32Array(N * C);
  layerNormForwardCpu({ x_NC, weight_C: unused, bias_C: unused, y_NC: unused, stat_N2 }, { N, C, epsilon: 1e-5 });
}
