/**
 * Rotary positions (Su et al. 2021) in the half-split layout: element d of a head is turned with element d + D/2 by the
 * angle t·frequency d of its row's position t in its example, which begins at row first_N of its window. In place, over the
 * first H heads of rows of S floats (queries and keys stand before the values). A rotation's gradient is the opposite
 * rotation, so `sign` −1 makes it the backward.
 *
 * Cosines and sines come from a table made in float64: a long sequence's angle times a float32 frequency would be off by
 * more than the other kernels' rounding, and a GPU's sin of a large angle is off without bound.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import { drawFirstRows } from './firstKeys.ts';
import code from './rotary.wgsl?raw';

/** [T, D]: for each position the cosines of D/2 frequencies, then as many sines. */
export function rotaryTable(positions: number, frequencies: readonly number[]): Float32Array<ArrayBuffer> {
  const half = frequencies.length;
  const headWidth = 2 * half;
  const table_TD = new Float32Array(positions * headWidth);
  for (let t = 0; t < positions; t++) {
    for (let d = 0; d < half; d++) {
      const angle = t * at(frequencies, d);
      table_TD[t * headWidth + d] = Math.cos(angle);
      table_TD[t * headWidth + half + d] = Math.sin(angle);
    }
  }
  return table_TD;
}

/** Rows of an example in a case. */
const LONGEST = 15;

export const rotary = kernel({
  name: 'rotary',
  tensors: [read('table_TD'), read('first_N', 'u32'), half(readWrite('x_NS'))],
  dims: [u32('N'), u32('T'), u32('H'), u32('D'), u32('S'), f32('sign')],
  sizes: ({ N, T, D, S }) => ({ table_TD: T * D, first_N: N, x_NS: N * S }),
  source: (_family, { D, S }) =>
    laneSource({ name: 'rotary', code, width: laneWidth(D / 2, S) }, ({ N, H, D: width }) => (N * H * width) / 2),
  cpu({ table_TD, first_N, x_NS }, { N, T, H, D, S, sign }) {
    const half = D / 2;
    for (let n = 0; n < N; n++) {
      const position = (n % T) - at(first_N, n);
      for (let h = 0; h < H; h++) {
        for (let d = 0; d < half; d++) {
          const cos = at(table_TD, position * D + d);
          const sin = sign * at(table_TD, position * D + half + d);
          const place = n * S + h * D + d;
          const [first, second] = [at(x_NS, place), at(x_NS, place + half)];
          x_NS[place] = first * cos - second * sin;
          x_NS[place + half] = second * cos + first * sin;
        }
      }
    }
  },
  cases: [
    { N: 1, T: 1, H: 1, D: 2, S: 2, sign: 1 },
    { N: 14, T: 7, H: 3, D: 10, S: 50, sign: 1 },
    { N: 74, T: 37, H: 8, D: 20, S: 200, sign: -1 },
    { N: 256, T: 64, H: 6, D: 32, S: 256, sign: 1 },
  ],
  fill({ table_TD, first_N }, { N, T, D }, random) {
    first_N.set(drawFirstRows(N, T, LONGEST, random));
    table_TD.set(
      rotaryTable(
        T,
        Array.from({ length: D / 2 }, (_, d) => 10_000 ** ((-2 * d) / D)),
      ),
    );
  },
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ N, H, D }) => ({ flops: 3 * N * H * D, bytes: 4 * 2 * N * H * D }),
});
