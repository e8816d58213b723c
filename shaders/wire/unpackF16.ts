/** Floats from the halves of packF16, times gain (the inverse of the one they were packed with). */
import { packedWords } from '../../swarm/wire.ts';
import { halfValue } from '../half.ts';
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, laneVariant } from '../lanes.ts';
import { f32, half, read, readWrite, u32 } from '../slots.ts';
import { packF16 } from './packF16.ts';
import code from './unpackF16.wgsl?raw';

export const unpackF16: Kernel = {
  name: 'unpackF16',
  tensors: [read('packed', 'u32'), half(readWrite('x'))],
  dims: [u32('n'), f32('gain')],
  sizes: ({ n }) => ({ packed: packedWords('f16', n), x: n }),
  variant: () => laneVariant({ name: 'unpackF16', code, lanes: lanesOf(1) }, ({ n }) => packedWords('f16', n)),
  cpu: unpackF16Cpu,
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
};

function unpackF16Cpu({ packed, x }: Arrays, { n, gain }: Dims): void {
  for (let i = 0; i < n; i++) {
    const word = packed[Math.floor(i / 2)] ?? 0;
    x[i] = halfValue(i % 2 === 0 ? word & 0xffff : word >>> 16) * gain;
  }
}
