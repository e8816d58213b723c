/**
 * Large things (token shards, checkpoints) as files named by the SHA-256 of their bytes: what has a name is complete
 * and never changes, so anyone may read it without a lock, and the same bytes are kept once.
 */
import { createHash, hash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, type FileHandle, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { addToKey, got, invariant } from '../../swarm/base.ts';
import { messageOf } from './errorWords.ts';
import { makeFolder } from './makeFolder.ts';

/** The SHA-256 of a blob's bytes, as 64 lower-case hexadecimal digits. */
export type BlobHash = string;

export type BlobStore = Pick<Blobs, keyof Blobs>;

const UNFINISHED = 'unfinished';
/** There is room again where so much can be written. */
const TRIED_BYTES = 2 ** 20;

const isBlobHash = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);
const blobHash = (bytes: Uint8Array): BlobHash => hash('sha256', bytes);

/** For another process than the one that writes them. */
export class BlobReader {
  protected readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** The file that holds the blob, if the store has it. */
  path(hash: BlobHash): string {
    invariant(isBlobHash(hash), `"${hash}" is no blob's name`);
    return join(this.directory, hash.slice(0, 2), hash.slice(2));
  }

  /** Bytes `[from, to)`, as they stand on the disk. */
  async readRange(hash: BlobHash, from: number, to: number): Promise<Buffer<ArrayBuffer>> {
    const file = await open(this.path(hash));
    try {
      return await readExactly(file, from, to - from);
    } finally {
      await file.close();
    }
  }
}

/** Blobs in `directory`, in folders by the first two digits. What a crash left half-written is taken away. */
export async function openBlobs(directory: string): Promise<BlobStore> {
  const unfinished = join(directory, UNFINISHED);
  await rm(unfinished, { recursive: true, force: true });
  makeFolder(unfinished);
  return new Blobs(directory);
}

class Blobs extends BlobReader {
  /** Files that were read and found whole, as they were then. */
  readonly #whole = new Map<BlobHash, string>();
  /** How many hold each; and those among them that are to go. */
  readonly #held = new Map<BlobHash, number>();
  readonly #doomed = new Set<BlobHash>();

  /** Keeps the bytes and answers once they are on the disk. */
  async put(bytes: Uint8Array): Promise<BlobHash> {
    const hash = blobHash(bytes);
    // One whose bytes have changed is put right by this.
    if ((await this.has(hash)) && (await this.problem(hash)) === null) {
      this.#doomed.delete(hash);
      return hash;
    }
    const temporary = this.#temporary();
    await writeSynced(temporary, bytes);
    return this.#keep(temporary, hash);
  }

  /** The same of bytes as they come; what did not come whole leaves nothing behind. */
  async putStream(chunks: AsyncIterable<Uint8Array>): Promise<BlobHash> {
    const temporary = this.#temporary();
    const hash = createHash('sha256');
    try {
      const observed = (async function* () {
        for await (const chunk of chunks) {
          hash.update(chunk);
          yield chunk;
        }
      })();
      await writeSynced(temporary, observed);
      return await this.#keep(temporary, hash.digest('hex'));
    } finally {
      await rm(temporary, { force: true }); // there only where it failed
    }
  }

  #temporary(): string {
    return join(this.directory, UNFINISHED, randomUUID());
  }

  async #keep(temporary: string, hash: BlobHash): Promise<BlobHash> {
    const path = this.path(hash);
    makeFolder(dirname(path));
    await rename(temporary, path);
    this.#doomed.delete(hash);
    await syncFolder(dirname(path));
    return hash;
  }

  has(hash: BlobHash): Promise<boolean> {
    return access(this.path(hash)).then(
      () => true,
      () => false,
    );
  }

  /** The whole blob, compared with its name: damage is an error. */
  async read(hash: BlobHash): Promise<Buffer<ArrayBuffer>> {
    const path = this.path(hash);
    const bytes = await readFile(path);
    if (blobHash(bytes) !== hash) throw new Error(damaged(path));
    return bytes as Buffer<ArrayBuffer>; // readFile never answers with shared memory
  }

  /**
   * What is wrong with its file: missing, its bytes have changed, or `look` at all of them, in pieces, found something.
   * Reads all of it, once a file.
   */
  async problem(hash: BlobHash, look: (piece: Uint8Array) => string | null = () => null): Promise<string | null> {
    const path = this.path(hash);
    const found = createHash('sha256');
    let fault: string | null = null;
    try {
      const identity = await identityOf(path);
      if (this.#whole.get(hash) === identity) return null;
      for await (const chunk of createReadStream(path)) {
        found.update(chunk);
        fault ??= look(chunk);
      }
      if (found.digest('hex') !== hash) return damaged(path);
      if (fault === null) this.#whole.set(hash, identity);
      return fault;
    } catch (error) {
      return `the stored file ${path} cannot be read: ${messageOf(error)}`;
    }
  }

  /** For whoever reads several for a while: whichever are removed meanwhile stay until the answer is called, once. */
  hold(hashes: Iterable<BlobHash>): () => Promise<void> {
    const own = new Set(hashes);
    for (const hash of own) addToKey(this.#held, hash, 1);
    return async () => {
      const last = [...own];
      own.clear();
      for (const hash of last) await this.#letGo(hash);
    };
  }

  async #letGo(hash: BlobHash): Promise<void> {
    const others = got(this.#held, hash) - 1;
    if (others > 0) this.#held.set(hash, others);
    else this.#held.delete(hash);
    if (others === 0 && this.#doomed.delete(hash)) await this.remove(hash);
  }

  /** Nothing happens where it has no such blob. One that somebody reads goes when the last one lets it go. */
  async remove(hash: BlobHash): Promise<void> {
    if (this.#held.has(hash)) {
      this.#doomed.add(hash);
      return;
    }
    this.#whole.delete(hash);
    await rm(this.path(hash), { force: true });
  }

  /** Throws where nothing can be written now. */
  async tryDisk(): Promise<void> {
    const temporary = this.#temporary();
    try {
      await writeSynced(temporary, new Uint8Array(TRIED_BYTES));
    } finally {
      await rm(temporary, { force: true });
    }
  }

  /** Every blob there is, for sweeping those that nothing names. */
  async list(): Promise<BlobHash[]> {
    const folders = (await readdir(this.directory)).filter((name) => name.length === 2);
    const names = await Promise.all(
      folders.map(async (folder) => (await readdir(join(this.directory, folder))).map((rest) => folder + rest)),
    );
    return names.flat().filter(isBlobHash).sort();
  }
}

const damaged = (path: string): string => `the stored file ${path} is damaged: its bytes have changed`;

/** `bytes` bytes at `position`; an error where the file ends before. */
export async function readExactly(file: FileHandle, position: number, bytes: number): Promise<Buffer<ArrayBuffer>> {
  const out = Buffer.from(new ArrayBuffer(bytes));
  for (let done = 0; done < bytes; ) {
    const { bytesRead } = await file.read(out, done, bytes - done, position + done);
    if (bytesRead === 0) throw new Error(`the file ends at ${position + done}, ${bytes - done} bytes early`);
    done += bytesRead;
  }
  return out;
}

/** Another one where a file was written to or put in the place of another. */
async function identityOf(path: string): Promise<string> {
  const found = await stat(path);
  if (!found.isFile()) throw new Error('it is no file');
  return [found.ino, found.size, found.mtimeMs, found.ctimeMs].join();
}

async function writeSynced(path: string, bytes: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await writeFile(file, bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes a rename in the folder last. Windows cannot open a folder, and needs no such thing. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return;
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
