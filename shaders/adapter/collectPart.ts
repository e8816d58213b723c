/** The gradient of a part's B, out of that of the matrix that all B's make (spreadPart.ts): db_WR += scale·dw_QR, in the part's rows and columns. */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './collectPart.wgsl?raw';

export const collectPart = kernel({
  name: 'collectPart',
  tensors: [read('dw_QR'), readWrite('db_WR')],
  dims: [u32('first'), u32('width'), u32('column'), u32('rank'), u32('R'), f32('scale')],
  sizes: ({ first, width, rank, R }) => ({ dw_QR: (first + width) * R, db_WR: width * rank }),
  source: (_family, { rank, R, column }) =>
    laneSource({ name: 'collectPart', code, width: laneWidth(rank, R, column) }, (dims) => dims.width * dims.rank),
  cpu({ dw_QR, db_WR }, { first, width, column, rank, R, scale }) {
    for (let j = 0; j < width; j++)
      for (let k = 0; k < rank; k++) {
        const i = j * rank + k;
        db_WR[i] = at(db_WR, i) + scale * at(dw_QR, (first + j) * R + column + k);
      }
  },
  cases: [
    { first: 0, width: 1, column: 0, rank: 1, R: 1, scale: 2 },
    { first: 12, width: 30, column: 3, rank: 3, R: 9, scale: 0.5 },
    { first: 96, width: 32, column: 4, rank: 4, R: 8, scale: 2 },
    { first: 0, width: 300, column: 0, rank: 16, R: 16, scale: 1 },
  ],
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ width, rank }) => ({ flops: 2 * width * rank, bytes: 4 * 3 * width * rank }),
});
