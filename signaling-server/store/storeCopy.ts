/** Everything of one data directory, or site, in another one that has no run yet: all of it or nothing. */
import { createReadStream } from 'node:fs';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { BlobHash, BlobStore } from '../files/blobs.ts';
import { NotKept, storageProblem } from '../files/storageProblem.ts';
import type { DataDirectory } from './dataDirectory.ts';
import { neededBlobs, sweepBlobs } from './keptBlobs.ts';
import { runBlobs, withoutBeside, withRun } from './runContent.ts';
import type { Store } from './store.ts';

/** Where a site is slow to keep what it was given: so long nobody gives it up. */
const KEEP_LIMIT_MS = 60_000;

export interface CopiedData {
  readonly runs: readonly string[];
  readonly blobs: number;
}

/** A run of a site that has a store of its own. */
interface BesideRun {
  readonly name: string;
  readonly data: DataDirectory;
}

/** Blobs first, each compared with its name, so that what the store then names is there. Refuses with one sentence. */
export async function copyData(
  from: DataDirectory,
  to: DataDirectory,
  beside: readonly BesideRun[] = [],
  keepLimitMs = KEEP_LIMIT_MS,
): Promise<Result<CopiedData>> {
  const runs = from.store.runNames();
  if (runs.length === 0) return refusal('there is no run to copy');
  const there = to.store.runNames();
  if (there.length > 0)
    return refusal(
      `there are runs already where they are to be copied to (${there.join(', ')}): copy to a place without any`,
    );
  try {
    const files = await copyAll(from, to, beside, keepLimitMs);
    return files.ok ? success({ runs, blobs: files.value }) : files;
  } catch (error) {
    const problem = storageProblem(error);
    if (problem === null) throw error;
    return refusal(`nothing is copied: ${problem}. When that is mended, copy again`);
  }
}

/** Answers with how many files there are. */
async function copyAll(
  from: DataDirectory,
  to: DataDirectory,
  beside: readonly BesideRun[],
  keepLimitMs: number,
): Promise<Result<number>> {
  let content = withoutBeside(from.store.content());
  let files = 0;
  const places = [{ data: from, hashes: neededBlobs(from.store) }];
  for (const { name, data } of beside) {
    if (data.store.run(name) === null) continue; // nobody has led it yet
    content = withRun(content, data.store.content(), name);
    places.push({ data, hashes: runBlobs(data.store, name) });
  }
  for (const { data, hashes } of places) {
    const copied = await copyBlobs(data.blobs, to.blobs, hashes).catch(async (error: unknown) => {
      // What came is nobody's, and others may need its room.
      await sweepBlobs(to.store, to.blobs).catch(() => {});
      throw error;
    });
    if (!copied.ok) return copied;
    files += hashes.size;
  }
  to.store.fill(content);
  await keptWithin(to.store, keepLimitMs);
  return success(files);
}

/** Rejects with why what was written is not kept by then. */
async function keptWithin(store: Store, limitMs: number): Promise<void> {
  let problem = 'it is not kept';
  const ignore = store.onStall((reason) => {
    problem = reason;
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NotKept(problem)), limitMs);
  });
  try {
    await Promise.race([store.kept(), late]);
  } finally {
    clearTimeout(timer);
    ignore();
  }
}

async function copyBlobs(from: BlobStore, to: BlobStore, hashes: ReadonlySet<BlobHash>): Promise<Result<null>> {
  const letGo = from.hold(hashes);
  try {
    for (const hash of hashes) {
      const problem = await from.problem(hash);
      if (problem !== null) return refusal(problem);
      await to.putStream(createReadStream(from.path(hash)));
    }
    return success(null);
  } finally {
    await letGo();
  }
}
