/** Floats from the ranges and codes of packInt4. */
import { INT4_TILE, packedWords, unpackedInt4 } from '../../swarm/wire.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import tile from './int4Tile.wgsl?raw';
import { INT4_CONSTANTS, packInt4 } from './packInt4.ts';
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
    const words = new Float32Array(packed.buffer, packed.byteOffset, packed.length);
    for (const [i, value] of unpackedInt4(words, n).entries()) x[i] = value * gain;
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
