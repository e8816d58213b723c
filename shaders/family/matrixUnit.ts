/**
 * What an adapter multiplies whole matrices with, where it offers that: WGSL's experimental subgroup matrices. A unit
 * is a small record of what the adapter says of itself, so that the choice of a product's text stays a function of
 * adapter and shape. Sums are always of f32; what is multiplied is what the run computes with, never less.
 *
 * The feature is asked for wherever an adapter has it, and no browser offers it yet without its flag for unsafe APIs.
 * https://dawn.googlesource.com/dawn/+/refs/heads/main/docs/dawn/features/subgroup_matrix.md
 */
import type { Compute } from '../../swarm/precision.ts';

/** C[m,n] += A[m,k]·B[k,n] by one subgroup. */
export interface MatrixUnit {
  readonly component: Compute;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Most invocations of a subgroup; a workgroup must be a multiple of it. */
  readonly lanes: number;
}

export const MATRIX_FEATURE = 'chromium-experimental-subgroup-matrix' as GPUFeatureName;

/** The part of GPUAdapterInfo that says it; the types of WebGPU do not know the experiment. */
export interface MatrixTraits {
  readonly isFallbackAdapter?: boolean;
  readonly subgroupMaxSize?: number;
  readonly subgroupMatrixConfigs?: Iterable<{
    readonly componentType: string;
    readonly resultComponentType: string;
    readonly M: number;
    readonly N: number;
    readonly K: number;
  }>;
}

/** Sizes that the tiles are made for; lanes of which four subgroups still fit a workgroup of 256. */
const SIDES: readonly number[] = [8, 16];
const MOST_LANES = 64;
const COMPONENTS: readonly Compute[] = ['f32', 'f16'];

/** At most one for each precision: the first that fits, since drivers list what they do best first. */
export function matrixUnits(info: MatrixTraits, features: { has(name: GPUFeatureName): boolean }): MatrixUnit[] {
  const { isFallbackAdapter, subgroupMaxSize: lanes = 0, subgroupMatrixConfigs: configs = [] } = info;
  if (!features.has(MATRIX_FEATURE) || lanes < 1 || lanes > MOST_LANES) return [];
  // llvmpipe makes ordinary instructions of it: 1.15 times the plain product's time, and four times as long to compile.
  if (isFallbackAdapter) return [];
  const all = Array.from(configs).filter(
    ({ resultComponentType, M, N, K }) =>
      resultComponentType === 'f32' && [M, N, K].every((size) => SIDES.includes(size)),
  );
  return COMPONENTS.flatMap((component) => {
    const config = all.find(({ componentType }) => componentType === component);
    return config ? [{ component, m: config.M, n: config.N, k: config.K, lanes }] : [];
  });
}
