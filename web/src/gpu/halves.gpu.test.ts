/** Weights that are kept as halves, in and out at any element, on an adapter with shader-f16. */
import { expect, test } from 'vitest';
import { halfBits } from '../../../shaders/kernel/half.ts';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { normal, seededRandom } from '../../../swarm/base.ts';
import { arena, segmentsIn } from '../../../swarm/model/layout.ts';
import type { Block } from '../../../swarm/model/model.ts';
import { halfValue } from '../../../swarm/wire.ts';
import { BufferSet, ReadbackPool } from './buffers.ts';
import { canHalve } from './device.ts';
import { gpuOf } from './engine.ts';
import { HalfWriter, readHalves } from './halves.ts';

const lengths = [131, 3, 260];
const tensors = lengths.map((elements, index) => ({
  name: `t${index}`,
  shape: [elements],
  offset: lengths.slice(0, index).reduce((sum, length) => sum + length, 0),
  elements,
  joined: index === 1, // right behind an odd number of elements
}));
const block = { name: 'layer.0', elements: 394, tensors } as unknown as Block;

test('[MP1] a range of a block becomes halves, and comes back, wherever it begins', async () => {
  const dawn = await dawnDevice('halves');
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  if (!canHalve(gpu.device, gpu.family)) return console.warn('skipped: this adapter has no shader-f16');
  const layout = arena(block, [[0, block.elements]], 'f16');
  const buffers = new BufferSet(gpu.device, 'halves', [
    { name: 'values', bytes: 2 * layout.floats, use: 'storage' },
    // Shorter than the longest tensor: it is written in pieces.
    { name: 'staging', bytes: 4 * 100, use: 'storage' },
    { name: 'readback', bytes: 2 * layout.floats + 16, use: 'readback' },
  ]);
  const target = buffers.get('values');
  const writer = await HalfWriter.create(gpu, buffers.get('staging'), target);
  const pool = new ReadbackPool(gpu.device, [buffers.get('readback')]);
  const random = seededRandom(1);
  const expected = new Float32Array(block.elements);
  for (const [from, to] of [
    [0, 394],
    [7, 8],
    [130, 135],
    [133, 300],
    [1, 394],
  ] as const) {
    // biome-ignore format: one line
    const values = Float32Array.from({ length: to - from }, () => normal(random));
    expected.set(
      values.map((value) => halfValue(halfBits(value))),
      from,
    );
    writer.write(segmentsIn(layout, [from, to]), from, values);
    for (const range of [
      [0, 394],
      [from, to],
      [129, 134],
    ] as const) {
      // biome-ignore format: one line
      const reading = await readHalves(pool, target, segmentsIn(layout, range), range);
      expect(await reading.take((read) => [...read])).toEqual([...expected.subarray(...range)]);
    }
  }
  writer.close();
  buffers.close();
});
