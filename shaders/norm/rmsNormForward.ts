/**
 * Root-mean-square normalisation (Zhang & Sennrich 2019): y = x·r·weight, r = 1/√(mean(x²) + epsilon), for each row of
 * x_NC. `stat` keeps r of each row for the backward.
 */
import { at } from '../../swarm/base.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './rmsNormForward.wgsl?raw';

export const rmsNormForward = kernel({
  name: 'rmsNorm.forward',
  tensors: [half(read('x_NC')), half(read('weight_C')), half(readWrite('y_NC')), by(1, readWrite('stat_N'))],
  dims: [u32('N'), u32('C'), f32('epsilon')],
  sizes: ({ N, C }) => ({ x_NC: N * C, weight_C: C, y_NC: N * C, stat_N: N }),
  source: (family, { C }) => rowSource({ name: 'rmsNorm.forward', code, width: laneWidth(C) }, family, ({ N }) => N),
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
});

function rmsNormForwardCpu(
  { x_NC, weight_C, y_NC, stat_N }: Arrays<'x_NC' | 'weight_C' | 'y_NC' | 'stat_N'>,
  { N, C, epsilon }: Dims<'N' | 'C' | 'epsilon'>,
): void {
  for (let n = 0; n < N; n++) {
    let mean = 0;
    for (let c = 0; c < C; c++) mean += at(x_NC, n * C + c) ** 2 / C;
    const r = 1 / Math.sqrt(mean + epsilon);
    for (let c = 0; c < C; c++) y_NC[n * C + c] = at(x_NC, n * C + c) * r * at(weight_C, c);
    stat_N[n] = r;
  }
}

/** Gives the cases of the backward kernels a `stat` that belongs to their x. */
export function fillInverseRms({ x_NC, stat_N }: Arrays<'x_NC' | 'stat_N'>, { N, C }: Dims<'N' | 'C'>): void {
  const unused = new Float32Array(N * C);
  rmsNormForwardCpu({ x_NC, weight_C: unused, y_NC: unused, stat_N }, { N, C, epsilon: 1e-5 });
}
