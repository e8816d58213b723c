/**
 * Root-mean-square normalisation (Zhang & Sennrich 2019): y = x·r·(offset + weight), r = 1/√(mean(x²) + epsilon), for each
 * row of x_NC. `stat` keeps r of each row for the backward.
 */
import { at } from '../../swarm/base.ts';
import { type AdapterFamily, type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './rmsNormForward.wgsl?raw';

const CASES = [
  { N: 1, C: 1, epsilon: 1e-5, offset: 0 },
  { N: 5, C: 7, epsilon: 1e-5, offset: 1 },
  { N: 37, C: 60, epsilon: 1e-6, offset: 0 },
  { N: 256, C: 128, epsilon: 1e-5, offset: 1 },
  { N: 3, C: 768, epsilon: 1e-6, offset: 0 },
] as const;
const DIMS = [u32('N'), u32('C'), f32('epsilon'), f32('offset')];
const TOLERANCE = { absolute: 2e-6, relative: 3e-6 };

export const rmsNormForward = kernel({
  name: 'rmsNorm.forward',
  tensors: [half(read('x_NC')), half(read('weight_C')), half(readWrite('y_NC')), by(1, readWrite('stat_N'))],
  dims: DIMS,
  sizes: ({ N, C }) => ({ x_NC: N * C, weight_C: C, y_NC: N * C, stat_N: N }),
  source: (family, { C }) => sourceOf('rmsNorm.forward', 'value', family, C),
  cpu: rmsNormForwardCpu,
  cases: CASES,
  tolerance: TOLERANCE,
  cost: ({ N, C }) => ({ flops: 4 * N * C, bytes: 4 * 2 * N * C }),
});

/** The same with a residual that is added: y = x·r·(offset + weight) + residual. */
export const rmsNormAdd = kernel({
  name: 'rmsNorm.add',
  tensors: [
    half(read('x_NC')),
    half(read('weight_C')),
    half(read('residual_NC')),
    half(readWrite('y_NC')),
    by(1, readWrite('stat_N')),
  ],
  dims: DIMS,
  sizes: ({ N, C }) => ({ x_NC: N * C, weight_C: C, residual_NC: N * C, y_NC: N * C, stat_N: N }),
  source: (family, { C }) => sourceOf('rmsNorm.add', 'value + load_residual_NC(i)', family, C),
  cpu({ residual_NC, ...arrays }, dims) {
    rmsNormForwardCpu(arrays, dims);
    for (let i = 0; i < residual_NC.length; i++) arrays.y_NC[i] = at(arrays.y_NC, i) + at(residual_NC, i);
  },
  cases: CASES,
  tolerance: TOLERANCE,
  cost: ({ N, C }) => ({ flops: 5 * N * C, bytes: 4 * 3 * N * C }),
});

/** `finished`: what is stored of `value`. */
function sourceOf(name: string, finished: string, family: AdapterFamily, C: number) {
  const finish = `fn finish(i: u32, value: Lane) { store_y_NC(i, ${finished}); }\n`;
  return rowSource<'N'>({ name, code: code + finish, width: laneWidth(C) }, family, ({ N }) => N);
}

function rmsNormForwardCpu(
  { x_NC, weight_C, y_NC, stat_N }: Arrays<'x_NC' | 'weight_C' | 'y_NC' | 'stat_N'>,
  { N, C, epsilon, offset }: Dims<'N' | 'C' | 'epsilon' | 'offset'>,
): void {
  for (let n = 0; n < N; n++) {
    let mean = 0;
    for (let c = 0; c < C; c++) mean += at(x_NC, n * C + c) ** 2 / C;
    const r = 1 / Math.sqrt(mean + epsilon);
    for (let c = 0; c < C; c++) y_NC[n * C + c] = at(x_NC, n * C + c) * r * (offset + at(weight_C, c));
    stat_N[n] = r;
  }
}

/** Gives the cases of the backward kernels a `stat` that belongs to their x. */
export function fillInverseRms({ x_NC, stat_N }: Arrays<'x_NC' | 'stat_N'>, { N, C }: Dims<'N' | 'C'>): void {
  const unused = new Float32Array(N * C);
  rmsNormForwardCpu({ x_NC, weight_C: unused, y_NC: unused, stat_N }, { N, C, epsilon: 1e-5, offset: 0 });
}
