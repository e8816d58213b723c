/** How much room there is where runs are kept. */
import { statfsSync } from 'node:fs';
import { monotonicMs } from '../monitoring/clock.ts';

/** So often it is looked; it is told in such steps, so that it is no news all the time. */
const LOOK_MS = 30_000;
const STEP_BYTES = 1e8;

/** Bytes; null: this system does not say. */
export function freeDisk(directory: string): () => number | null {
  let kept: { readonly atMs: number; readonly bytes: number | null } | null = null;
  return () => {
    const nowMs = monotonicMs();
    if (kept === null || nowMs - kept.atMs > LOOK_MS) kept = { atMs: nowMs, bytes: look(directory) };
    return kept.bytes;
  };
}

function look(directory: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(directory);
    return Math.floor((bavail * bsize) / STEP_BYTES) * STEP_BYTES;
  } catch {
    return null;
  }
}
