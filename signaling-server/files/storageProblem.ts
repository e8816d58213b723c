/**
 * Why the machine cannot keep something now, where that is what an error says: for people, and to wait until it can. And how
 * much room it has.
 */
import { statfsSync } from 'node:fs';
import { monotonicMs } from '../monitoring/clock.ts';

/** SQLite's primary result codes. */
const SQLITE = new Map([
  [8, 'its disk is read-only'],
  [10, 'its disk fails'],
  [13, 'its disk is full'],
]);
const FILES = new Map([
  ['ENOSPC', 'its disk is full'],
  ['EDQUOT', 'its share of the disk is used up'],
  ['EROFS', 'its disk is read-only'],
  ['EIO', 'its disk fails'],
]);

/** What keeps is another machine, and it does not: for the reason given, as in "The server cannot keep anything now: …". */
export class NotKept extends Error {}

/** So that keeps whoever leads: nobody has to mend anything. */
export class NotLeading extends NotKept {}

/** NATS answers, and has nothing of what it had kept. Only a person can say what it is to have. */
export const JOURNAL_GONE =
  'the journal of this site is gone from NATS: stop NATS, put the folder of its streams back and start it, ' +
  'or stop all servers, fill the site from a backup (shoal store copy --from DIR --to nats://…) and start them';

/** Null: it is another error. */
export function storageProblem(error: unknown): string | null {
  if (error instanceof NotKept) return error.message;
  const { code, sqliteExtendedCode: extended } = (error ?? {}) as { code?: unknown; sqliteExtendedCode?: unknown };
  if (typeof extended === 'number') return SQLITE.get(extended % 256) ?? null;
  return typeof code === 'string' ? (FILES.get(code) ?? null) : null;
}

/** For people, while the run waits until it can. */
export const standsSentence = (problem: string): string =>
  problem === JOURNAL_GONE
    ? `Nothing can be committed: ${problem}.`
    : `The server cannot keep anything now: ${problem}. Nothing is lost, and the run goes on by itself when that is mended.`;

/** So often it is looked; it is told in such steps, so that it is no news all the time. */
const LOOK_MS = 30_000;
const STEP_BYTES = 1e8;

/** How much room there is where runs are kept, in bytes; null: this system does not say. */
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
