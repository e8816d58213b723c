import type { Range } from '../../../swarm/base.ts';
import { type Arena, segmentsIn } from '../../../swarm/model/layout.ts';

/** Writes a range of a block, which comes without gaps, into a buffer that is laid out as an arena. */
export function writeRange(
  device: GPUDevice,
  arena: Arena,
  buffer: GPUBuffer,
  range: Range,
  values: Float32Array,
): void {
  for (const { from, at, length } of segmentsIn(arena, range)) {
    const part = values.subarray(from - range[0], from - range[0] + length) as Float32Array<ArrayBuffer>;
    device.queue.writeBuffer(buffer, at * 4, part);
  }
}
