/**
 * Adds what the codes of packInt8 stand for: values of which an owner sent the difference. The product has eleven bits, so
 * that the sum is the same bits on every adapter, whether or not it fuses the two.
 */
import { at } from '../../swarm/base.ts';
import { INT8_BLOCK, INT8_BLOCK_WORDS, packedWords } from '../../swarm/wire.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { read, readWrite, u32 } from '../kernel/slots.ts';
import code from './addInt8.wgsl?raw';
import { packInt8 } from './packInt8.ts';

export const addInt8 = kernel({
  name: 'addInt8',
  tensors: [read('packed', 'u32'), readWrite('acc')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ packed: packedWords('int8', n), acc: n }),
  source: (_family) =>
    laneSource({ name: 'addInt8', code, width: laneWidth(1), constants: { BLOCK: INT8_BLOCK } }, ({ n }) =>
      Math.ceil(n / 4),
    ),
  cpu({ packed, acc }, { n }) {
    const floats = new Float32Array(packed.buffer, packed.byteOffset, packed.length);
    const bytes = new Int8Array(packed.buffer, packed.byteOffset, packed.byteLength);
    for (let i = 0; i < n; i++) {
      const start = Math.floor(i / INT8_BLOCK) * INT8_BLOCK_WORDS;
      acc[i] = at(acc, i) + at(floats, start) * at(bytes, 4 * (start + 1) + (i % INT8_BLOCK));
    }
  },
  cases: packInt8.cases,
  fill({ packed, acc }, dims, random) {
    const x = new Float32Array(dims.n);
    packInt8.fill?.({ x, packed }, dims, random);
    for (let i = 0; i < dims.n; i++) x[i] = at(x, i) || at(acc, dims.n - 1 - i);
    packInt8.cpu({ x, packed }, dims);
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: 2 * n, bytes: 9 * n }),
});
