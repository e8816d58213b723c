/**
 * Σ x² in PARTIALS float32 partial sums, for the gradient norm; the caller adds them in float64. Elements are dealt to
 * the partials in blocks, so that every chain of float32 additions is short and its error far below 1e-6.
 */
import { PARTIALS } from '../../swarm/plan/memory.ts';
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, rowVariant, WIDE_TEAM } from '../lanes.ts';
import { read, readWrite, u32 } from '../slots.ts';
import code from './sumSquares.wgsl?raw';

/** Neighbouring elements that are summed together first. */
const BLOCK = 256;

export const sumSquares: Kernel = {
  name: 'sumSquares',
  tensors: [read('x'), readWrite('partials')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, partials: PARTIALS }),
  variant: (family, { n }) =>
    rowVariant(
      { name: 'sumSquares', code, lanes: lanesOf(n), constants: { PARTIALS, BLOCK }, team: WIDE_TEAM },
      family,
      () => PARTIALS,
    ),
  cpu: sumSquaresCpu,
  cases: [{ n: 1 }, { n: 259 }, { n: 200_003 }, { n: 437_760 }],
  tolerance: { absolute: 0, relative: 3e-6 },
  cost: ({ n }) => ({ flops: 2 * n, bytes: 4 * n }),
};

function sumSquaresCpu({ x, partials }: Arrays, { n }: Dims): void {
  for (let p = 0; p < PARTIALS; p++) {
    let sum = 0;
    for (let start = p * BLOCK; start < n; start += PARTIALS * BLOCK) {
      for (let i = start; i < Math.min(start + BLOCK, n); i++) sum += x[i] ** 2;
    }
    partials[p] = sum;
  }
}
