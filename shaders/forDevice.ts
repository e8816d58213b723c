/**
 * Which form of a kernel a device runs: over halves where the run computes with halves, on a matrix unit where the adapter
 * has one that multiplies just that. Both are facts of adapter and run, so the same donor always makes the same bits.
 */
import type { Compute } from '../swarm/precision.ts';
import { onMatrixUnit } from './family/matmul.ts';
import type { MatrixUnit } from './family/matrixUnit.ts';
import { inHalves } from './kernel/inHalves.ts';
import type { Kernel } from './kernel/kernel.ts';

export function forDevice(units: readonly MatrixUnit[], compute: Compute, kernel: Kernel): Kernel {
  const unit = units.find(({ component }) => component === compute);
  const placed = unit ? onMatrixUnit(kernel, unit) : kernel;
  return compute === 'f16' ? inHalves(placed) : placed;
}
