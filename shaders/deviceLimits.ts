/**
 * What a device is asked for: limits beyond WebGPU's word, or by name though they are the default, each with its reason; and
 * features that kernels are faster with.
 */
import { type Result, refusal, success } from '../swarm/base.ts';
import { MATRIX_FEATURE } from './family/matrixUnit.ts';

/** Asked for where the adapter has them; no kernel needs one to be right. */
export const WANTED_FEATURES: readonly GPUFeatureName[] = [
  'subgroups',
  'timestamp-query',
  'shader-f16',
  MATRIX_FEATURE,
];

interface LimitRow {
  readonly name: keyof GPUSupportedLimits & string;
  /** A number: kernels are written for it. `most`: whatever the adapter has. */
  readonly want: number | 'most';
  readonly why: string;
}

const LIMITS: readonly LimitRow[] = [
  { name: 'maxBufferSize', want: 'most', why: 'an embedding table is one buffer; the default is 256 MiB' },
  { name: 'maxStorageBufferBindingSize', want: 'most', why: 'and one binding; the default is 128 MiB' },
  { name: 'maxStorageBuffersPerShaderStage', want: 8, why: 'a kernel has at most eight tensors' },
  { name: 'maxBindGroups', want: 2, why: 'tensors, dims' },
  { name: 'maxComputeWorkgroupsPerDimension', want: 65_535, why: 'larger grids are cut (grid.ts)' },
  {
    name: 'maxComputeInvocationsPerWorkgroup',
    want: 256,
    why: 'a product’s tiles: 64×64 elements by 16 each, 128×128 by 64',
  },
  { name: 'maxComputeWorkgroupSizeX', want: 256, why: 'the same tiles' },
  {
    name: 'maxComputeWorkgroupStorageSize',
    want: 16_384,
    why: 'attention’s strips of its own rows and of the others; a product’s take 12.5 KiB at most',
  },
];

/** What `requestDevice` is given; a refusal where the adapter has less. */
export function requiredLimits(adapter: GPUSupportedLimits): Result<Record<string, number>> {
  const limits: Record<string, number> = {};
  for (const { name, want, why } of LIMITS) {
    const has = Number(adapter[name]);
    if (want !== 'most' && has < want) {
      return refusal(`This GPU’s ${name} is ${has}, and at least ${want} is needed: ${why}.`);
    }
    limits[name] = want === 'most' ? has : want;
  }
  return success(limits);
}
