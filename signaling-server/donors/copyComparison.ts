/** What a primary uploaded of a shard, added up as its replica added up what it has. */
import type { CopyComparison } from '../../swarm/coordinator/events.ts';
import { STATE_KINDS } from '../../swarm/plan/handover.ts';
import { isNear, Sketching } from '../../swarm/run/stateSketch.ts';
import type { BlobStore } from '../files/blobs.ts';

const FLOAT_BYTES = 4;
/** As much is read at once. */
const PIECE_ELEMENTS = 1 << 16;

export async function isUploadNear(
  blobs: Pick<BlobStore, 'readRange' | 'hold'>,
  { primaryHash, copy }: Pick<CopyComparison, 'primaryHash' | 'copy'>,
): Promise<boolean> {
  const [from, to] = copy.range;
  const elements = to - from;
  const sketching = new Sketching(copy.seed);
  const letGo = blobs.hold([primaryHash]);
  try {
    for (const kind of STATE_KINDS.keys())
      for (let start = 0; start < elements; start += PIECE_ELEMENTS) {
        const [first, last] = [kind * elements + start, kind * elements + Math.min(elements, start + PIECE_ELEMENTS)];
        const { buffer, byteOffset } = await blobs.readRange(primaryHash, FLOAT_BYTES * first, FLOAT_BYTES * last);
        sketching.add(
          kind,
          from + start,
          new Float32Array(buffer.slice(byteOffset, byteOffset + FLOAT_BYTES * (last - first))),
        );
      }
  } finally {
    await letGo();
  }
  return isNear(sketching.result(), copy);
}
