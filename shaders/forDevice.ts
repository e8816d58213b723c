/**
 * Which form of a kernel a device runs: over halves where the run computes with halves, on a matrix unit where the adapter
 * has one that multiplies just that, else in tiles of the adapter's class. All are facts of adapter and run, so the same
 * donor always makes the same bits.
 */
import type { Compute } from '../swarm/precision.ts';
import { inStepsOf } from './attention/attention.ts';
import type { GpuClass } from './family/adapterFamily.ts';
import { inTilesOf, ofHalves, onMatrixUnit } from './family/matmul.ts';
import type { MatrixUnit } from './family/matrixUnit.ts';
import { inHalves } from './kernel/inHalves.ts';
import type { Kernel } from './kernel/kernel.ts';

/** What of an adapter decides. */
export interface DeviceTraits {
  readonly units: readonly MatrixUnit[];
  /** Absent: the usual one. */
  readonly gpuClass?: GpuClass | undefined;
}

export function forDevice({ units, gpuClass = 'usual' }: DeviceTraits, compute: Compute, kernel: Kernel): Kernel {
  const unit = units.find(({ component }) => component === compute);
  const own = inStepsOf(kernel, gpuClass);
  const placed = unit ? onMatrixUnit(own, unit) : inTilesOf(own, gpuClass);
  return compute === 'f16' ? inHalves(unit ? placed : ofHalves(placed)) : placed;
}
