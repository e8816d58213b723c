/**
 * The judge of the CPU references: a gradient compared with central differences of its forward, both in float64. Only
 * tests import it.
 */
import { at, normal, seededRandom } from '../../swarm/base.ts';
import type { Arrays, Dims, Kernel } from '../kernel/kernel.ts';

/**
 * A kernel's tensors in float64, zero where the kernel writes. References are written for any array of numbers; the
 * type says Float32Array because that is what everything else gives them.
 */
export function float64Arrays<Tensor extends string>(
  kernel: Kernel<Tensor>,
  dims: Dims,
  seed = 1,
): Readonly<Record<Tensor, Float32Array>> {
  const random = seededRandom(seed);
  const sizes = kernel.sizes(dims);
  const arrays = kernel.tensors.map(({ name, access }) => {
    const values = Float64Array.from({ length: sizes[name] }, () => (access === 'read' ? normal(random) : 0));
    return [name, values as unknown as Float32Array] as const;
  });
  return Object.fromEntries(arrays) as Record<Tensor, Float32Array>; // one for each name of the table
}

const STEP = 1e-5;

/** d loss / d values[i] for every i; `loss` reads `values`, which are put back. */
export function numericalGradient(values: Float32Array, loss: () => number): number[] {
  return Array.from(values, (value, i) => {
    values[i] = value + STEP;
    const above = loss();
    values[i] = value - STEP;
    const below = loss();
    values[i] = value;
    return (above - below) / (2 * STEP);
  });
}

/** Σ output·weights after the kernel's reference has run: a scalar whose gradient for `output` is `weights`. */
export function weightedOutput<Tensor extends string>(
  kernel: Kernel<Tensor>,
  arrays: Arrays<Tensor>,
  dims: Dims,
  output: NoInfer<Tensor>,
  weights: Float32Array,
) {
  return (): number => {
    kernel.cpu(arrays, dims);
    return weights.reduce((sum, weight, i) => sum + weight * at(arrays[output], i), 0);
  };
}

/** Largest difference of two gradients, as a share of the largest entry (or of 1, if that is more). */
export function gradientError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  const largest = Math.max(1, ...Array.from(expected, Math.abs));
  return Math.max(...Array.from(expected, (value, i) => Math.abs(at(actual, i) - value))) / largest;
}
