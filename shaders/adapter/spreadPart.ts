/**
 * The B's of an adapter side by side in one matrix w_QR, so that one product adds all of them to a linear row's outputs: part
 * p has `width` rows and the `rank` columns from `column` on, times the adapter's scale; all else is zero. A run is `rows`
 * rows from `first` on, in which the part's begin behind `before` others.
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './spreadPart.wgsl?raw';

export const spreadPart = kernel({
  name: 'spreadPart',
  tensors: [half(read('b_WR')), half(readWrite('w_QR'))],
  dims: [u32('first'), u32('rows'), u32('before'), u32('width'), u32('column'), u32('rank'), u32('R'), f32('scale')],
  sizes: ({ first, rows, width, rank, R }) => ({ b_WR: width * rank, w_QR: (first + rows) * R }),
  source: (_family, { rank, R, column }) =>
    laneSource({ name: 'spreadPart', code, width: laneWidth(rank, R, column) }, (dims) => dims.rows * dims.R),
  cpu({ b_WR, w_QR }, { first, rows, before, width, column, rank, R, scale }) {
    for (let row = 0; row < rows; row++)
      for (let c = 0; c < R; c++) {
        const [j, k] = [row - before, c - column];
        const isInside = j >= 0 && j < width && k >= 0 && k < rank;
        w_QR[(first + row) * R + c] = isInside ? scale * at(b_WR, j * rank + k) : 0;
      }
  },
  cases: [
    { first: 0, rows: 1, before: 0, width: 1, column: 0, rank: 1, R: 1, scale: 2 },
    { first: 7, rows: 41, before: 5, width: 30, column: 3, rank: 3, R: 9, scale: 0.5 },
    { first: 64, rows: 96, before: 32, width: 32, column: 4, rank: 4, R: 8, scale: 2 },
    { first: 0, rows: 300, before: 0, width: 300, column: 0, rank: 16, R: 16, scale: 1 },
  ],
  tolerance: { absolute: 0, relative: 1e-6 },
  cost: ({ rows, R }) => ({ flops: rows * R, bytes: 4 * 2 * rows * R }),
});
