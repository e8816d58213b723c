/**
 * The database and its copies: which of them is whole, and how a copy is made. Two copies lie beside the database, the
 * newest first. One counts once it was read back, and until then the one before it stays.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { type Result, refusal } from '../../swarm/base.ts';
import { onOneLine } from '../files/errorWords.ts';
import { addChecksums, type Checked, check } from './checksums.ts';
import { SCHEMA_VERSION } from './schema.ts';

export const STORE_FILE = 'shoal.sqlite';
export const COPY_FILES = ['shoal.copy-1.sqlite', 'shoal.copy-2.sqlite'] as const;
const UNFINISHED = 'shoal.copy-unfinished.sqlite';
/** What SQLite keeps beside a database. */
const COMPANIONS = ['', '-wal', '-shm', '-journal'];

/** SQLite's primary result codes that say nothing about the file's bytes: no right to it, no memory, a disk that fails. */
const NOT_ITS_BYTES = new Set([3, 5, 6, 7, 8, 10, 13, 14, 15, 23]);
/** Where a database says whether it may be written, and read: of version 2 at most. */
const FORMAT_AT = 18;

/** What a database is worth, by reading all of it. An error that says nothing of its bytes is thrown. */
export function examine(path: string): Result<Checked> {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return refusal('it is missing');
  if (!found.isFile()) throw new Error('it is no file');
  if (found.size > 0 && Math.max(...formatOf(path)) > 2) return refusal('its first bytes are not those of a database');
  let database: InstanceType<typeof DatabaseSync> | undefined;
  try {
    // Who is killed while it makes a database leaves it half-written, with what takes that back, which is a write.
    database = new DatabaseSync(path, { readOnly: !existsSync(`${path}-journal`) });
    addChecksums(database);
    return check(database, SCHEMA_VERSION);
  } catch (error) {
    const { errcode } = error as { errcode?: unknown };
    if (typeof errcode === 'number' && NOT_ITS_BYTES.has(errcode % 256)) throw error;
    return refusal(onOneLine(error));
  } finally {
    database?.close();
  }
}

function formatOf(path: string): Uint8Array {
  const file = openSync(path, 'r');
  const bytes = new Uint8Array(2);
  readSync(file, bytes, 0, 2, FORMAT_AT);
  closeSync(file);
  return bytes;
}

/** Out of the way, under a name of its own, with what SQLite keeps beside it: nothing is deleted. Answers with that name. */
export function setFileAside(path: string): string {
  let number = 1;
  while (COMPANIONS.some((end) => existsSync(`${path}.damaged-${number}${end}`))) number++;
  const aside = `${path}.damaged-${number}`;
  for (const end of COMPANIONS) if (existsSync(`${path}${end}`)) renameSync(`${path}${end}`, `${aside}${end}`);
  return basename(aside);
}

/** Whether something lies there that was set aside. */
export const IS_ASIDE = /\.damaged-\d+/;

/** Puts a copy in the database's place, and keeps it as the copy that it is. */
export function restore(directory: string, copy: string): void {
  const unfinished = join(directory, UNFINISHED);
  rmSync(unfinished, { force: true });
  copyFileSync(copy, unfinished);
  put(directory, unfinished, join(directory, STORE_FILE));
}

export interface Copied {
  readonly isMade: boolean;
  /** What a person should know. */
  readonly found: readonly string[];
}

/** Makes a copy of the database as it stands; another connection may write to it meanwhile. */
export function makeCopy(directory: string): Copied {
  const [newest, older] = COPY_FILES.map((name) => join(directory, name)) as [string, string];
  const unfinished = join(directory, UNFINISHED);
  try {
    const made = makeSnapshot(join(directory, STORE_FILE), unfinished);
    if (!made.ok) return notMade(made.reason);
    const last = examine(newest);
    const found = last.ok || !existsSync(newest) ? [] : [asideSentence(newest, last.reason, setFileAside(newest))];
    if (last.ok) renameSync(newest, older);
    put(directory, unfinished, newest);
    return { isMade: true, found };
  } catch (error) {
    return notMade(onOneLine(error));
  }
}

/** What the database `from` has at this moment, in the file `to`; another connection may write to it meanwhile. */
export function makeSnapshot(from: string, to: string): Result<Checked> {
  rmSync(to, { force: true });
  const database = new DatabaseSync(from, { readOnly: true });
  try {
    database.prepare('VACUUM INTO ?').run(to);
  } finally {
    database.close();
  }
  return examine(to);
}

const notMade = (reason: string): Copied => ({
  isMade: false,
  found: [`No copy of the database could be made: ${reason}. The copies before it stay.`],
});

export const asideSentence = (path: string, reason: string, aside: string): string =>
  `${path} cannot be used: ${reason}. It is set aside as ${aside}.`;

/** In the place of whatever is there, and on the disk. */
function put(directory: string, from: string, to: string): void {
  sync(from);
  renameSync(from, to);
  // Windows cannot open a folder, and needs no such thing.
  if (process.platform !== 'win32') sync(directory);
}

function sync(path: string): void {
  const file = openSync(path, process.platform === 'win32' ? 'r+' : 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
