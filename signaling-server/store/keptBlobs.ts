/**
 * Which blobs of a data directory stay: those that a run, a checkpoint or a text of the store names. Whatever else is there is of
 * a checkpoint that never became whole, or of one that newer ones superseded.
 */

import type { BlobHash, BlobStore } from '../files/blobs.ts';
import { manifestHashes, parseManifest } from './checkpointState.ts';
import { documentHashes, storedDocument } from './runDocument.ts';
import type { Store } from './store.ts';

/** Of every run, every checkpoint and every text that was brought along. */
export function neededBlobs(store: Store): ReadonlySet<BlobHash> {
  const needed = new Set(store.manifests().flatMap((manifest) => manifestHashes(parseManifest(manifest))));
  for (const name of store.runNames()) {
    for (const hash of documentHashes(storedDocument(store, name))) needed.add(hash);
  }
  for (const { hash, heldOutHash } of store.texts()) needed.add(hash).add(heldOutHash);
  return needed;
}

/** Takes away what nothing names; of `candidates` alone, where they are given. */
export async function sweepBlobs(store: Store, blobs: BlobStore, candidates?: Iterable<BlobHash>): Promise<void> {
  const needed = neededBlobs(store);
  for (const hash of candidates ?? (await blobs.list())) if (!needed.has(hash)) await blobs.remove(hash);
}
