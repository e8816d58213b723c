/**
 * Which family of kernels an adapter gets. `software` kernels are laid out for SwiftShader, whose unit of execution is
 * a row of exactly four lanes; only an adapter that says both things about itself gets them. Every other adapter,
 * llvmpipe with its eight lanes included, gets `gpu` kernels, which assume no subgroup size at all.
 */
import type { AdapterFamily } from '../kernel/kernel.ts';

/** The part of GPUAdapterInfo that decides. Fields are optional because browsers differ in which they have. */
interface AdapterTraits {
  readonly subgroupMinSize?: number;
  readonly subgroupMaxSize?: number;
  readonly isFallbackAdapter?: boolean;
  readonly architecture?: string;
}

/** Lanes of a subgroup that the `software` kernels are written for. */
export const SOFTWARE_LANES = 4;

export function adapterFamily(info: AdapterTraits, features: { has(name: string): boolean }): AdapterFamily {
  const isSoftware = info.isFallbackAdapter === true || info.architecture === 'swiftshader';
  const hasFourLanes = info.subgroupMinSize === SOFTWARE_LANES && info.subgroupMaxSize === SOFTWARE_LANES;
  // Some phones' GPUs have subgroups of four too, and want workgroup memory all the same.
  return isSoftware && hasFourLanes && features.has('subgroups') ? 'software' : 'gpu';
}
