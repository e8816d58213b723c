/** Floats from the scales and codes of packInt8. */
import { at } from '../../swarm/base.ts';
import { INT8_BLOCK, INT8_BLOCK_WORDS, packedWords } from '../../swarm/wire.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import { packInt8 } from './packInt8.ts';
import code from './unpackInt8.wgsl?raw';

export const unpackInt8 = kernel({
  name: 'unpackInt8',
  tensors: [read('packed', 'u32'), half(readWrite('x'))],
  dims: [u32('n')],
  sizes: ({ n }) => ({ packed: packedWords('int8', n), x: n }),
  source: (_family) =>
    laneSource({ name: 'unpackInt8', code, width: laneWidth(1), constants: { BLOCK: INT8_BLOCK } }, ({ n }) =>
      Math.ceil(n / 4),
    ),
  cpu({ packed, x }, { n }) {
    const floats = new Float32Array(packed.buffer, packed.byteOffset, packed.length);
    const bytes = new Int8Array(packed.buffer, packed.byteOffset, packed.byteLength);
    for (let i = 0; i < n; i++) {
      const start = Math.floor(i / INT8_BLOCK) * INT8_BLOCK_WORDS;
      x[i] = at(floats, start) * at(bytes, 4 * (start + 1) + (i % INT8_BLOCK));
    }
  },
  cases: packInt8.cases,
  fill(arrays, dims, random) {
    packInt8.fill?.(arrays, dims, random);
    packInt8.cpu(arrays, dims);
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: n, bytes: 5 * n }),
});
