/** What a primary uploaded of a shard, added up as its replica added up what it has. */
import type { CoordinatorEvent, CopyComparison, Effect } from '../../swarm/coordinator/events.ts';
import { STATE_KINDS } from '../../swarm/plan/handover.ts';
import { isNear, Sketching } from '../../swarm/run/stateSketch.ts';
import type { BlobStore } from '../files/blobs.ts';

type Blobs = Pick<BlobStore, 'readRange' | 'hold'>;

const FLOAT_BYTES = 4;
/** As much is read at once. */
const PIECE_ELEMENTS = 1 << 16;

type CompareCopy = Extract<Effect, { type: 'compareCopy' }>;
type CopyCompared = Extract<CoordinatorEvent, { type: 'copyCompared' }>;

/** Where the disk does not give it back nobody is to blame. */
export async function compareCopy(
  blobs: Blobs,
  { type: _, primaryHash, copy, ...of }: CompareCopy,
  loop: { dispatch(event: CopyCompared): void },
): Promise<void> {
  let isNear = true;
  try {
    isNear = await isUploadNear(blobs, { primaryHash, copy });
  } finally {
    loop.dispatch({ type: 'copyCompared', ...of, isNear });
  }
}

export async function isUploadNear(
  blobs: Blobs,
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
