/**
 * The blobs of a site: files in this process's folder as ever, and in the site's object folder by the same names. Kept is
 * what the site has; a file that is missing or damaged here is fetched when somebody asks for it.
 */
import { createReadStream } from 'node:fs';
import type { BlobHash, BlobStore } from '../files/blobs.ts';
import { NotKept } from '../files/storageProblem.ts';
import type { Journal } from './journal.ts';
import type { ObjectFolder } from './objectFolder.ts';
import { SILENT } from './writer.ts';

/** `kept`: resolves once all that was written is kept; rejects where it never is. */
export function siteBlobs(
  local: BlobStore,
  site: ObjectFolder,
  journal: Pick<Journal, 'isKept' | 'isCutOff' | 'problem'>,
  kept: () => Promise<void>,
): BlobStore {
  /** Files on their way here. */
  const fetching = new Map<BlobHash, Promise<void>>();
  /** To be removed from the site when they are let go here. */
  const doomed = new Set<BlobHash>();

  const fetched = (hash: BlobHash): Promise<void> => {
    const known = fetching.get(hash);
    if (known !== undefined) return known;
    const coming = (async () => {
      const chunks = await reached(() => site.get(hash));
      if (chunks === null) return; // whoever asks is told that there is none
      const came = await local.putStream(chunks);
      if (came !== hash) await local.remove(came);
    })().finally(() => fetching.delete(hash));
    fetching.set(hash, coming);
    return coming;
  };
  const present = async (hash: BlobHash): Promise<void> => {
    if (!(await local.has(hash))) await fetched(hash).catch(() => {});
  };

  const keep = async (hash: BlobHash): Promise<BlobHash> => {
    doomed.delete(hash);
    await reached(async () => {
      if (!(await site.has(hash))) await site.put(hash, createReadStream(local.path(hash)));
    });
    return hash;
  };
  const removeFar = async (hash: BlobHash): Promise<void> => {
    if (await local.has(hash)) {
      doomed.add(hash);
      return;
    }
    doomed.delete(hash);
    // Who leads no more removes nothing.
    await kept();
    await reached(() => site.remove(hash));
  };

  return {
    path: (hash) => local.path(hash),
    put: async (bytes) => keep(await local.put(bytes)),
    putStream: async (chunks) => keep(await local.putStream(chunks)),
    has: async (hash) => (await local.has(hash)) || reached(() => site.has(hash)),
    read: async (hash) => {
      await present(hash);
      try {
        return await local.read(hash);
      } catch {
        await fetched(hash);
        return local.read(hash);
      }
    },
    readRange: async (hash, from, to) => {
      await present(hash);
      return local.readRange(hash, from, to);
    },
    problem: async (hash, look) => {
      await present(hash);
      const found = await local.problem(hash, look);
      if (found === null) return null;
      await fetched(hash).catch(() => {});
      return local.problem(hash, look);
    },
    remove: async (hash) => {
      await local.remove(hash);
      await removeFar(hash);
    },
    hold: (hashes) => {
      const own = [...hashes];
      const letGo = local.hold(own);
      return async () => {
        await letGo();
        for (const hash of own) if (doomed.has(hash)) await removeFar(hash);
      };
    },
    tryDisk: async () => {
      await local.tryDisk();
      if (!journal.isKept || journal.isCutOff) throw new NotKept(journal.problem);
    },
    list: () => reached(() => site.list()),
  };
}

/** What fails because NATS is away is no other fault: whoever waits for it goes on when it is back. */
async function reached<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code } = (error ?? {}) as { code?: unknown };
    if (typeof code === 'string' || error instanceof NotKept) throw error; // of a file, or with a reason of its own
    throw new NotKept(SILENT, { cause: error });
  }
}
