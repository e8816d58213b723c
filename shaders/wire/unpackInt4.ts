/** Floats from the ranges and codes of packInt4. */
import { at } from '../../swarm/base.ts';
import { INT4_TILE, INT4_TILES, packedWords } from '../../swarm/wire.ts';
import { halfValue } from '../kernel/half.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import tile from './int4Tile.wgsl?raw';
import { INT4_CONSTANTS, int4Places, packInt4, rotate, swapWithFirst } from './packInt4.ts';
import code from './unpackInt4.wgsl?raw';

export const unpackInt4 = kernel({
  name: 'unpackInt4',
  tensors: [read('packed', 'u32'), half(readWrite('x'))],
  dims: [u32('n'), f32('gain')],
  sizes: ({ n }) => ({ packed: packedWords('int4', n), x: n }),
  source: (_family) =>
    laneSource({ name: 'unpackInt4', code: tile + code, width: laneWidth(1), constants: INT4_CONSTANTS }, ({ n }) =>
      Math.ceil(n / INT4_TILE),
    ),
  cpu({ packed, x }, { n, gain }) {
    for (let number = 0; INT4_TILE * number < n; number++) {
      const { rotations, words } = int4Places(number);
      const [low, high] = [halfValue(at(packed, words) & 0xffff), halfValue(at(packed, words) >>> 16)];
      const values = Array.from({ length: INT4_TILE }, (_, j) => {
        const level = (at(packed, words + 1 + (j >> 3)) >>> (4 * (j % 8))) & 15;
        return low + (level * (high - low)) / 15;
      });
      const rotation = (at(packed, rotations) >>> (6 * (number % INT4_TILES))) & 63;
      if (rotation >= 32) {
        rotate(values);
        swapWithFirst(values, rotation & 31);
      }
      const first = INT4_TILE * number;
      for (let j = 0; j < INT4_TILE && first + j < n; j++) x[first + j] = at(values, j) * gain;
    }
  },
  cases: packInt4.cases.map(({ n, gain }) => ({ n, gain: 1 / gain })),
  fill(arrays, dims, random) {
    packInt4.fill?.(arrays, dims, random);
    packInt4.cpu(arrays, { ...dims, gain: 1 / dims.gain });
  },
  // Of a level times a step that is not exact, and of the sums of a rotation: an outlier's tile goes to twelve.
  tolerance: { absolute: 1e-5, relative: 2e-6 },
  cost: ({ n }) => ({ flops: 8 * n, bytes: 4.65 * n }),
});
