/**
 * Which form of a kernel a device runs: over halves where the run computes with halves, on a matrix unit where the adapter
 * has one that multiplies just that, else in the texts of the adapter's class. All are facts of adapter and run, so the same
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
interface DeviceTraits {
  readonly units: readonly MatrixUnit[];
  /** Absent: the usual one. */
  readonly gpuClass?: GpuClass | undefined;
}

export function forDevice({ units, gpuClass = 'usual' }: DeviceTraits, compute: Compute, kernel: Kernel): Kernel {
  const unit = units.find(({ component }) => component === compute);
  const own = inStepsOf(kernel, gpuClass);
  const placed = unit ? onMatrixUnit(own, unit) : inTextsOf(own, gpuClass);
  if (compute === 'f32') return placed;
  return inHalves(unit || gpuClass === 'cpu' ? placed : ofHalves(placed));
}

const withoutBarriers = new WeakMap<Kernel, Kernel>();

/** A CPU has every text without workgroup memory: its tiles of a product, and what a software adapter has of all else. */
function inTextsOf(kernel: Kernel, gpuClass: GpuClass): Kernel {
  const tiled = inTilesOf(kernel, gpuClass);
  if (gpuClass !== 'cpu' || tiled !== kernel) return tiled;
  const known = withoutBarriers.get(kernel) ?? { ...kernel, source: (_, dims) => kernel.source('software', dims) };
  withoutBarriers.set(kernel, known);
  return known;
}
