/** Everything of one data directory, or site, in another one that has no run yet: all of it or nothing. */
import { createReadStream } from 'node:fs';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { DataDirectory } from './dataDirectory.ts';
import { neededBlobs } from './keptBlobs.ts';

export interface CopiedData {
  readonly runs: readonly string[];
  readonly blobs: number;
}

/** Blobs first, each compared with its name, so that what the store then names is there. Refuses with one sentence. */
export async function copyData(from: DataDirectory, to: DataDirectory): Promise<Result<CopiedData>> {
  const runs = from.store.runNames();
  if (runs.length === 0) return refusal('there is no run to copy');
  const there = to.store.runNames();
  if (there.length > 0) return refusal(`there are runs already where they are to be copied to: ${there.join(', ')}`);
  const content = from.store.content();
  const hashes = neededBlobs(from.store);
  const letGo = from.blobs.hold(hashes);
  try {
    for (const hash of hashes) {
      const problem = await from.blobs.problem(hash);
      if (problem !== null) return refusal(problem);
      await to.blobs.putStream(createReadStream(from.blobs.path(hash)));
    }
    to.store.fill(content);
    await to.store.kept();
    return success({ runs, blobs: hashes.size });
  } finally {
    await letGo();
  }
}
