/** Whether a shard on its way comes on: bytes of it that never came before, as fast as any body must come. */
import { LEAST_BYTES_PER_MS } from '../../swarm/coordinator/deadlines.ts';

/** Told of every piece: its bytes, how many of them never came before, and whether the shard is whole with it. */
export type UploadCame = (sizeBytes: number, newBytes: number, isWhole: boolean) => void;

const TOLD_MS = 5_000;

/** Of one try of one shard. `count` is told of all that comes; `tell`: it came on since it was told last. */
export function uploadPace(now: () => number, count: (sizeBytes: number) => void, tell: () => unknown): UploadCame {
  let since = { atMs: now(), newBytes: 0 };
  return (sizeBytes, newBytes, isWhole) => {
    count(sizeBytes);
    const nowMs = now();
    if (newBytes === 0) {
      since = { atMs: nowMs, newBytes: 0 };
      return;
    }
    since.newBytes += newBytes;
    const passedMs = nowMs - since.atMs;
    if (!(isWhole || passedMs >= TOLD_MS) || since.newBytes < passedMs * LEAST_BYTES_PER_MS) return;
    since = { atMs: nowMs, newBytes: 0 };
    tell();
  };
}
