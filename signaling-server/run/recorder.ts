/**
 * The recording of a server's decisions, as a file. An event is written before it is decided, and what came of it before
 * its effects are performed: nothing is queued, and a killed server has lost no event.
 */
import { hash } from 'node:crypto';
import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { parseLine, type Recording, recording, undecided } from '../../swarm/recording/recording.ts';
import { messageOf } from '../files/errorWords.ts';
import { makeFolder } from '../files/makeFolder.ts';
import { filePlaceFault } from '../files/outputPlace.ts';
import { storageProblem } from '../files/storageProblem.ts';

const NEWLINE = 10;
const CHUNK_BYTES = 65_536;
/** The first line says what the run began with; of a larger file's first bytes no more is looked at. */
const FIRST_LINE_LIMIT = 16 * 1024 ** 2;

/** 132 bits. */
export const hashOf = (text: string): string => hash('sha256', text, 'base64url').slice(0, 22);

export class Recorder implements Recording {
  readonly #lines = recording(hashOf, (text) => this.#write(text));
  readonly #warn: (text: string) => void;
  #file: number | null;

  constructor(file: number, warn: (text: string) => void) {
    this.#file = file;
    this.#warn = warn;
  }

  readonly began = this.#lines.began;
  readonly event = this.#lines.event;
  readonly decided = this.#lines.decided;

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  /** A full disk ends the recording, not the run. */
  #write(text: string): void {
    if (this.#file === null) return;
    const bytes = Buffer.from(text);
    try {
      for (let from = 0; from < bytes.length; ) from += writeSync(this.#file, bytes, from);
    } catch (error) {
      this.#warn(`The recording ends here: ${messageOf(error)}`);
      this.close();
    }
  }
}

/** Why no recording can be written there, or appended to what is there; null: it can. */
export function recordFault(path: string): string | null {
  const fault = filePlaceFault(path);
  if (fault !== null || !existsSync(path)) return fault;
  const file = openSync(path, 'r');
  const { size } = fstatSync(file);
  const first = size === 0 ? null : parseLine(firstLine(file, size), true);
  closeSync(file);
  return first === null || first.ok ? null : `${path}: line 1 ${first.reason}`;
}

/** Goes on with the recording that is there, behind its last event. */
export function openRecorder(path: string, warn: (text: string) => void): Result<Recorder> {
  const fault = recordFault(path);
  if (fault !== null) return refusal(fault);
  try {
    makeFolder(dirname(path));
    const file = openSync(path, 'a+');
    const { size } = fstatSync(file);
    const whole = wholeLines(file, size);
    const last = undecided(bytesAt(file, whole, size).toString());
    ftruncateSync(file, whole);
    if (last !== null) writeSync(file, `${last}\n`);
    return success(new Recorder(file, warn));
  } catch (error) {
    const problem = storageProblem(error);
    if (problem === null) throw error;
    return refusal(`${path} cannot be written: ${problem}`);
  }
}

function firstLine(file: number, size: number): string {
  const bytes = bytesAt(file, 0, Math.min(size, FIRST_LINE_LIMIT));
  const end = bytes.indexOf(NEWLINE);
  return bytes.toString('utf8', 0, end < 0 ? bytes.length : end);
}

/** Bytes up to the end of the last line that has one. */
function wholeLines(file: number, size: number): number {
  for (let end = size; end > 0; ) {
    const begin = Math.max(0, end - CHUNK_BYTES);
    const last = bytesAt(file, begin, end).lastIndexOf(NEWLINE);
    if (last >= 0) return begin + last + 1;
    end = begin;
  }
  return 0;
}

function bytesAt(file: number, begin: number, end: number): Buffer {
  const bytes = Buffer.alloc(end - begin);
  for (let read = 0; read < bytes.length; ) {
    const more = readSync(file, bytes, read, bytes.length - read, begin + read);
    if (more === 0) return bytes.subarray(0, read);
    read += more;
  }
  return bytes;
}
