/**
 * Σ x² in PARTIALS float32 partial sums, for the gradient norm; the caller adds them in float64. Elements are dealt to
 * the partials in blocks, so that every chain of float32 additions is short and its error far below 1e-6. Of an array in
 * pieces each one but the first adds to the partials (`accumulate` 1).
 */

import { at } from '../../swarm/base.ts';
import { PARTIALS } from '../../swarm/memory/memory.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource, WIDE_TEAM } from '../kernel/lanes.ts';
import { by, read, readWrite, u32 } from '../kernel/slots.ts';
import alone from './sumSquares.wgsl?raw';
import team from './sumSquaresTeam.wgsl?raw';

/** Neighbouring elements that are summed together first. */
const BLOCK = 256;

export const sumSquares = kernel({
  name: 'sumSquares',
  tensors: [read('x'), by(1, readWrite('partials'))],
  dims: [u32('n'), u32('accumulate')],
  sizes: ({ n }) => ({ x: n, partials: PARTIALS }),
  source: (family, { n }) => {
    const code = family === 'gpu' ? team : alone;
    const constants = { PARTIALS, BLOCK };
    return rowSource(
      { name: 'sumSquares', code, width: laneWidth(n), constants, team: WIDE_TEAM },
      family,
      () => PARTIALS,
    );
  },
  cpu({ x, partials }, { n, accumulate }) {
    for (let p = 0; p < PARTIALS; p++) {
      let sum = 0;
      for (let start = p * BLOCK; start < n; start += PARTIALS * BLOCK) {
        for (let i = start; i < Math.min(start + BLOCK, n); i++) sum += at(x, i) ** 2;
      }
      partials[p] = sum + (accumulate === 1 ? at(partials, p) : 0);
    }
  },
  cases: [
    { n: 1, accumulate: 0 },
    { n: 259, accumulate: 1 },
    { n: 200_003, accumulate: 0 },
    { n: 437_760, accumulate: 1 },
  ],
  // Partials of the same sign as what is added to them.
  fill: ({ partials }) => partials.fill(100),
  tolerance: { absolute: 0, relative: 3e-6 },
  cost: ({ n }) => ({ flops: 2 * n, bytes: 4 * n }),
});
