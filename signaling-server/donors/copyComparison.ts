/** What was uploaded of a shard, added up as another keeper added up what it has. */
import type { CoordinatorEvent, CopyComparison, Effect } from '../../swarm/coordinator/events.ts';
import { savedKinds } from '../../swarm/plan/stateKinds.ts';
import type { RunFile } from '../../swarm/run/runFile.ts';
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
  { train }: Pick<RunFile, 'train'>,
  { type: _, islands, uploadedHash, copy, ...of }: CompareCopy,
  loop: { dispatch(event: CopyCompared): void },
): Promise<void> {
  let isNear = true;
  try {
    isNear = await isUploadNear(blobs, savedKinds(train.islands, islands).length, { uploadedHash, copy });
  } finally {
    loop.dispatch({ type: 'copyCompared', ...of, isNear });
  }
}

/** `kinds`: of how many a shard is. */
export async function isUploadNear(
  blobs: Blobs,
  kinds: number,
  { uploadedHash, copy }: Pick<CopyComparison, 'uploadedHash' | 'copy'>,
): Promise<boolean> {
  const [from, to] = copy.range;
  const elements = to - from;
  const sketching = new Sketching(copy.seed, kinds);
  const letGo = blobs.hold([uploadedHash]);
  try {
    for (let kind = 0; kind < kinds; kind++)
      for (let start = 0; start < elements; start += PIECE_ELEMENTS) {
        const [first, last] = [kind * elements + start, kind * elements + Math.min(elements, start + PIECE_ELEMENTS)];
        const { buffer, byteOffset } = await blobs.readRange(uploadedHash, FLOAT_BYTES * first, FLOAT_BYTES * last);
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
