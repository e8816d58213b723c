/** Everything of one data directory, or site, in another one that has no run yet: all of it or nothing. */
import { createReadStream } from 'node:fs';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { BlobHash, BlobStore } from '../files/blobs.ts';
import type { DataDirectory } from './dataDirectory.ts';
import { neededBlobs } from './keptBlobs.ts';
import { runBlobs, withoutBeside, withRun } from './runContent.ts';

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
): Promise<Result<CopiedData>> {
  const runs = from.store.runNames();
  if (runs.length === 0) return refusal('there is no run to copy');
  const there = to.store.runNames();
  if (there.length > 0)
    return refusal(
      `there are runs already where they are to be copied to (${there.join(', ')}): copy to a place without any`,
    );
  let content = withoutBeside(from.store.content());
  let files = 0;
  const places = [{ data: from, hashes: neededBlobs(from.store) }];
  for (const { name, data } of beside) {
    if (data.store.run(name) === null) continue; // nobody has led it yet
    content = withRun(content, data.store.content(), name);
    places.push({ data, hashes: runBlobs(data.store, name) });
  }
  for (const { data, hashes } of places) {
    const copied = await copyBlobs(data.blobs, to.blobs, hashes);
    if (!copied.ok) return copied;
    files += hashes.size;
  }
  to.store.fill(content);
  await to.store.kept();
  return success({ runs, blobs: files });
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
