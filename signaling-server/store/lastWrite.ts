/**
 * How many writes the database has, beside it: a database that lost its newest ones (by a write-ahead log that is torn or
 * gone, or an older file in its place) is whole in itself, and is known by this alone. It is written after each
 * transaction, and nobody waits until the disk has it: it may be behind the database, and never ahead.
 */
import { hash } from 'node:crypto';
import { closeSync, constants, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';

export const LAST_WRITE_FILE = 'shoal.writes';
const DIGITS = 16;

function lineOf(writes: number): string {
  const text = String(writes).padStart(DIGITS, '0');
  return `${text} ${hash('sha256', text).slice(0, DIGITS)}\n`;
}

/** Null: there is none. */
export function readLastWrite(directory: string): number | 'damaged' | null {
  const path = join(directory, LAST_WRITE_FILE);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return null;
  if (!found.isFile() || found.size !== lineOf(0).length) return 'damaged';
  const text = readFileSync(path, 'utf8');
  const writes = Number(text.slice(0, DIGITS));
  return lineOf(writes) === text ? writes : 'damaged';
}

export class LastWrite {
  readonly #file: number;
  #writes = -1;

  constructor(directory: string) {
    this.#file = openSync(join(directory, LAST_WRITE_FILE), constants.O_RDWR | constants.O_CREAT);
  }

  note(writes: number): void {
    if (writes === this.#writes) return;
    this.#writes = writes;
    try {
      writeSync(this.#file, lineOf(writes), 0);
    } catch {
      // What is committed is committed: a disk that takes no more shows at the next write of the database itself.
    }
  }

  close(): void {
    closeSync(this.#file);
  }
}
