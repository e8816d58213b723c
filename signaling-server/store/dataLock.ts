/**
 * One server a data directory. The lock is an exclusive transaction on a small database of its own, held as long as
 * the server lives: the operating system drops it with the process, however that ends, so nothing stale can remain.
 */
import { join } from 'node:path';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { makeFolder } from '../files/makeFolder.ts';

const SQLITE_BUSY = 5;

interface DataLock {
  release(): void;
}

export function lockDataDirectory(directory: string): Result<DataLock> {
  let database: DatabaseSyncInstance | undefined;
  try {
    makeFolder(directory);
    database = new DatabaseSync(join(directory, 'lock.sqlite'));
    database.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY)
      return refusal(`the data directory ${directory} is in use by another server`);
    const detail = error instanceof Error ? error.message : String(error);
    return refusal(`the data directory ${directory} cannot be opened: ${detail}`);
  }
  const held = database;
  return success({ release: () => held.close() });
}
