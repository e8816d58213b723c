/**
 * The stream as halves, two a word, before it is read back for the wire: x·gain rounded to even, finite values
 * saturated. Needs no `shader-f16`, and gives the same bits on every adapter (down to 2⁻¹⁴; below, a GPU may flush).
 */
import { at } from '../../swarm/base.ts';
import { packedWords } from '../../swarm/wire.ts';
import { halfBits } from '../kernel/half.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import halfWord from './halfWord.wgsl?raw';
import code from './packF16.wgsl?raw';

export const packF16 = kernel({
  name: 'packF16',
  tensors: [half(read('x')), readWrite('packed', 'u32')],
  dims: [u32('n'), f32('gain')],
  sizes: ({ n }) => ({ x: n, packed: packedWords('f16', n) }),
  source: (_family) =>
    laneSource({ name: 'packF16', code: halfWord + code, width: laneWidth(1) }, ({ n }) => packedWords('f16', n)),
  cpu({ x, packed }, { n, gain }) {
    const half = (i: number): number => (i < n ? halfBits(Math.fround(at(x, i) * gain)) : 0);
    for (let i = 0; 2 * i < n; i++) packed[i] = half(2 * i) + half(2 * i + 1) * 0x10000;
  },
  cases: [
    { n: 1, gain: 1 },
    { n: 259, gain: 1 },
    { n: 4096, gain: 2 ** 16 },
  ],
  fill({ x }) {
    // Ties, what saturates, what is not finite.
    const odd = [0, -0, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 65_519, 65_520, -1e9, Infinity, -Infinity, Number.NaN, 3e38];
    if (x.length === 259) x.set(odd, 100);
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: n, bytes: 6 * n }),
});
