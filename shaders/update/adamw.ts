/**
 * AdamW as torch.optim.AdamW does it (Loshchilov & Hutter 2019): decay decoupled from the gradient, moments corrected
 * for their start at zero. What changes from step to step is one small buffer, `scalars`, so a step's launches stay as
 * they are; where tensors lie and which of them decay are dims (updateRuns.ts).
 */

import { at } from '../../swarm/base.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { by, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './adamw.wgsl?raw';
import plain from './adamwPlain.wgsl?raw';
import shadow from './adamwShadow.wgsl?raw';
import { DECAY_DIMS, type DecayDim, type Decays, decayDims } from './updateRuns.ts';

/** Fields of the `scalars` tensor, in order. */
export const ADAMW_SCALARS = [
  'learningRate',
  'clipScale',
  'beta1',
  'beta2',
  'epsilon',
  'correction1',
  'correction2',
  'weightDecay',
] as const;

export interface AdamwSettings {
  readonly learningRate: number;
  /** Factor on every gradient: min(1, c/(norm + 1e-6)). */
  readonly clipScale: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  /** Updates including this one: the first is 1. */
  readonly update: number;
}

/**
 * The `scalars` of one update. The corrections 1 − β^t are taken from the betas as float32 holds them: in 1 − 0.999 the
 * rounding of 0.999 is 1.3e-5 of the result, and it cancels only where moment and correction share it.
 */
export function adamwScalars(settings: AdamwSettings): Float32Array<ArrayBuffer> {
  const correction1 = 1 - Math.fround(settings.beta1) ** settings.update;
  const correction2 = 1 - Math.fround(settings.beta2) ** settings.update;
  const values = { ...settings, correction1, correction2 };
  return Float32Array.from(ADAMW_SCALARS, (name) => values[name]);
}

/** All ranges of a launch, the last of them to its end. */
const RANGES: Decays = [
  [0, 4],
  [8, 64],
  [128, 512],
  [900, 1024],
];

type AdamwDims = Dims<'offset' | 'count' | 'gradientOffset' | 'momentOffset' | DecayDim> & {
  readonly shadowOffset?: number;
};

/** Everything that has to divide by four. */
const placesIn = ({ offset, count, gradientOffset, momentOffset, shadowOffset = 0, ...decays }: AdamwDims) => [
  offset,
  count,
  gradientOffset,
  momentOffset,
  shadowOffset,
  ...DECAY_DIMS.map((name) => decays[name]),
];

export const adamw = kernel({
  name: 'adamw',
  tensors: [readWrite('values'), read('grads'), readWrite('m'), readWrite('v'), by(1, read('scalars'))],
  dims: [u32('offset'), u32('count'), u32('gradientOffset'), u32('momentOffset'), ...DECAY_DIMS.map(u32)],
  sizes: ({ offset, count, gradientOffset, momentOffset }) => ({
    values: offset + count,
    grads: gradientOffset + count,
    m: momentOffset + count,
    v: momentOffset + count,
    scalars: ADAMW_SCALARS.length,
  }),
  source: (_family, dims) =>
    laneSource({ name: 'adamw', code: plain + code, width: laneWidth(...placesIn(dims)) }, ({ count }) => count),
  cpu: adamwCpu,
  cases: [
    { offset: 0, count: 1, gradientOffset: 0, momentOffset: 0, ...decayDims([[0, 1]]) },
    { offset: 3, count: 259, gradientOffset: 2, momentOffset: 5, ...decayDims([]) },
    { offset: 64, count: 1024, gradientOffset: 128, momentOffset: 0, ...decayDims(RANGES) },
    {
      offset: 0,
      count: 131,
      gradientOffset: 0,
      momentOffset: 0,
      ...decayDims([
        [2, 3],
        [64, 131],
      ]),
    },
  ],
  fill({ v, scalars }) {
    for (let i = 0; i < v.length; i++) v[i] = at(v, i) ** 2;
    scalars.set(
      adamwScalars({
        learningRate: 0.01,
        clipScale: 0.5,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        weightDecay: 0.1,
        update: 3,
      }),
    );
  },
  // m and v do not go through a cancellation; the update is lr times a number of ordinary size.
  tolerance: { absolute: 2e-6, relative: 1e-6 },
  cost: ({ count }) => ({ flops: 16 * count, bytes: 4 * 7 * count }),
});

/** The same, and the new values once more where a stage computes with halves of them. */
export const adamwShadow = kernel({
  ...adamw,
  name: 'adamw.shadow',
  tensors: [...adamw.tensors, half(readWrite('shadow'))],
  dims: [...adamw.dims, u32('shadowOffset')],
  sizes: (dims) => ({ ...adamw.sizes(dims), shadow: dims.shadowOffset + dims.count }),
  source: (_family, dims) =>
    laneSource(
      { name: 'adamw.shadow', code: shadow + code, width: laneWidth(...placesIn(dims)) },
      ({ count }) => count,
    ),
  cpu: (arrays, dims) => {
    adamwCpu(arrays, dims);
    const { values, shadow: copy } = arrays;
    for (let i = 0; i < dims.count; i++) copy[dims.shadowOffset + i] = at(values, dims.offset + i);
  },
  cases: adamw.cases.map((dims, index) => ({ ...dims, shadowOffset: index === 1 ? 7 : 128 * index })),
  cost: ({ count }) => ({ flops: 16 * count, bytes: 4 * 8 * count }),
});

function adamwCpu(
  { values, grads, m, v, scalars }: Arrays<'values' | 'grads' | 'm' | 'v' | 'scalars'>,
  dims: AdamwDims,
): void {
  const { offset, count, gradientOffset, momentOffset } = dims;
  const { from0, to0, from1, to1, from2, to2, from3, to3 } = dims;
  const decays = (i: number): boolean =>
    (from0 <= i && i < to0) || (from1 <= i && i < to1) || (from2 <= i && i < to2) || (from3 <= i && i < to3);
  const scalar = (name: (typeof ADAMW_SCALARS)[number]): number => at(scalars, ADAMW_SCALARS.indexOf(name));
  const [learningRate, clipScale, weightDecay] = [scalar('learningRate'), scalar('clipScale'), scalar('weightDecay')];
  const [beta1, beta2, epsilon] = [scalar('beta1'), scalar('beta2'), scalar('epsilon')];
  const [correction1, correction2] = [scalar('correction1'), scalar('correction2')];
  for (let i = 0; i < count; i++) {
    const place = offset + i;
    const momentAt = momentOffset + i;
    const g = at(grads, gradientOffset + i) * clipScale;
    const mNew = beta1 * at(m, momentAt) + (1 - beta1) * g;
    const vNew = beta2 * at(v, momentAt) + (1 - beta2) * g * g;
    const decay = decays(i) ? 1 : 0;
    const decayed = at(values, place) * (1 - learningRate * weightDecay * decay);
    values[place] = decayed - (learningRate * (mNew / correction1)) / (Math.sqrt(vNew / correction2) + epsilon);
    m[momentAt] = mNew;
    v[momentAt] = vNew;
  }
}
