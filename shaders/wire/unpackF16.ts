/** Floats from the halves of packF16, times gain (the inverse of the one they were packed with). */
import { packedWords, unpackedF16 } from '../../swarm/wire.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import { packF16 } from './packF16.ts';
import code from './unpackF16.wgsl?raw';

export const unpackF16 = kernel({
  name: 'unpackF16',
  tensors: [read('packed', 'u32'), half(readWrite('x'))],
  dims: [u32('n'), f32('gain')],
  sizes: ({ n }) => ({ packed: packedWords('f16', n), x: n }),
  source: (_family) => laneSource({ name: 'unpackF16', code, width: laneWidth(1) }, ({ n }) => packedWords('f16', n)),
  cpu({ packed, x }, { n, gain }) {
    const words = new Float32Array(packed.buffer, packed.byteOffset, packed.length);
    for (const [i, value] of unpackedF16(words, n).entries()) x[i] = value * gain;
  },
  cases: [
    { n: 1, gain: 1 },
    { n: 259, gain: 1 },
    { n: 4096, gain: 2 ** -16 },
  ],
  fill(arrays, { n, gain }, random) {
    packF16.fill?.(arrays, { n, gain }, random);
    packF16.cpu(arrays, { n, gain: 1 / gain });
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: n, bytes: 6 * n }),
});
