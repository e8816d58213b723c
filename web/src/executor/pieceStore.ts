/**
 * Pieces of bases in the browser's own file system (OPFS), a file each by the SHA-256 of its bytes: a donor that comes back
 * need not fetch them again. Bounded; the oldest go first, those of the run at hand never. What cannot be read or written
 * is as good as not there. A file is whole or not there at all: it is renamed by the browser once all of it is written.
 */
import type { PieceStore } from './standingBase.ts';

const FOLDER = 'base';
const MOST_BYTES = 8 * 2 ** 30;

export interface KeptPieces extends PieceStore {
  bytes(): number;
  clear(): Promise<void>;
}

/** Null where the browser keeps nothing, as in some private windows. */
export async function openPieces(
  root: () => Promise<FileSystemDirectoryHandle>,
  mostBytes = MOST_BYTES,
): Promise<KeptPieces | null> {
  try {
    const folder = await (await root()).getDirectoryHandle(FOLDER, { create: true });
    const found: { readonly name: string; readonly bytes: number; readonly writtenAt: number }[] = [];
    for await (const [name, handle] of folder.entries()) {
      if (!(handle instanceof FileSystemFileHandle)) continue;
      const { size, lastModified } = await handle.getFile();
      found.push({ name, bytes: size, writtenAt: lastModified });
    }
    found.sort((a, b) => a.writtenAt - b.writtenAt);
    return piecesIn(folder, new Map(found.map(({ name, bytes }) => [name, bytes])), mostBytes);
  } catch {
    return null;
  }
}

/** `sizes`: by name, the oldest first. */
export function piecesIn(
  folder: Pick<FileSystemDirectoryHandle, 'getFileHandle' | 'removeEntry'>,
  sizes: Map<string, number>,
  mostBytes: number,
): KeptPieces {
  const sum = (): number => [...sizes.values()].reduce((all, bytes) => all + bytes, 0);
  const remove = async (name: string): Promise<void> => {
    sizes.delete(name);
    await folder.removeEntry(name).catch(() => undefined); // another tab has removed it, or reads it
  };
  const makeRoom = async (bytes: number, wanted: ReadonlySet<string>): Promise<boolean> => {
    for (const name of [...sizes.keys()]) {
      if (sum() + bytes <= mostBytes) break;
      if (!wanted.has(name)) await remove(name);
    }
    return sum() + bytes <= mostBytes;
  };
  return {
    async get(hash) {
      try {
        return await (await (await folder.getFileHandle(hash)).getFile()).arrayBuffer();
      } catch {
        return null;
      }
    },
    async put(hash, bytes, wanted) {
      sizes.delete(hash);
      if (!(await makeRoom(bytes.byteLength, wanted))) return;
      sizes.set(hash, bytes.byteLength);
      try {
        const writable = await (await folder.getFileHandle(hash, { create: true })).createWritable();
        await writable.write(bytes);
        await writable.close();
      } catch {
        await remove(hash); // no room on the disk, say
      }
    },
    bytes: sum,
    async clear() {
      for (const name of [...sizes.keys()]) await remove(name);
    },
  };
}
