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
  readonly vendor?: string;
}

/** Lanes of a subgroup that the `software` kernels are written for. */
export const SOFTWARE_LANES = 4;

export function adapterFamily(info: AdapterTraits, features: { has(name: string): boolean }): AdapterFamily {
  const isSoftware = info.isFallbackAdapter === true || info.architecture === 'swiftshader';
  const hasFourLanes = info.subgroupMinSize === SOFTWARE_LANES && info.subgroupMaxSize === SOFTWARE_LANES;
  // Some phones' GPUs have subgroups of four too, and want workgroup memory all the same.
  return isSoftware && hasFourLanes && features.has('subgroups') ? 'software' : 'gpu';
}

/**
 * How many elements of a product one invocation of a GPU can keep in registers, beside what it needs anyway. `wide`: 8×8
 * (NVIDIA and AMD: 255 of them an invocation, at the price of fewer invocations). `usual`: 8×4 (Apple's and Intel's spill
 * above that; also whoever does not say what it is). `narrow`: 4×4, phones. `cpu`: no GPU (llvmpipe, WARP), which has sixteen
 * and no workgroup memory that is nearer than the rest.
 */
export type GpuClass = 'wide' | 'usual' | 'narrow' | 'cpu';

/** Vendors as Dawn and Safari name them; a browser that says none has the class that suits most. */
const CLASS_OF_VENDOR: Readonly<Record<string, GpuClass>> = {
  ...{ nvidia: 'wide', amd: 'wide' },
  ...{ arm: 'narrow', qualcomm: 'narrow', 'img-tec': 'narrow', samsung: 'narrow' },
};

/** SwiftShader has the other family; its tests with this one are those of the usual GPU. Firefox says no vendor, but this. */
export const gpuClassOf = ({ vendor = '', architecture, isFallbackAdapter }: AdapterTraits): GpuClass =>
  isFallbackAdapter === true && architecture !== 'swiftshader'
    ? 'cpu'
    : (CLASS_OF_VENDOR[vendor.toLowerCase()] ?? 'usual');
