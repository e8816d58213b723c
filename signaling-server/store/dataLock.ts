/**
 * One server a data directory. The lock is an exclusive transaction on a small database of its own, held as long as
 * the server lives: the operating system drops it with the process, however that ends, so nothing stale can remain.
 */
import { join } from 'node:path';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { messageOf } from '../files/errorWords.ts';
import { makeFolder } from '../files/makeFolder.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { asideSentence, setFileAside } from './copies.ts';

const SQLITE_BUSY = 5;
/** Its bytes are none of a database. */
const BROKEN = new Set<unknown>([11, 26]);

interface DataLock {
  /** What was wrong with it, where it had to be made anew. */
  readonly found: readonly string[];
  release(): void;
}

export function lockDataDirectory(directory: string, found: readonly string[] = []): Result<DataLock> {
  const path = join(directory, 'lock.sqlite');
  let database: DatabaseSyncInstance | undefined;
  try {
    makeFolder(directory);
    database = new DatabaseSync(path);
    database.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    const code = error instanceof Error && 'errcode' in error ? error.errcode : null;
    if (code === SQLITE_BUSY) return refusal(`the data directory ${directory} is in use by another server`);
    const detail = messageOf(error);
    // There is nothing in it, and nobody can hold what is no database.
    if (BROKEN.has(code) && found.length === 0)
      return lockDataDirectory(directory, [asideSentence(path, detail, setFileAside(path))]);
    return refusal(`the data directory ${directory} cannot be opened: ${storageProblem(error) ?? detail}`);
  }
  const held = database;
  return success({ found, release: () => held.close() });
}
