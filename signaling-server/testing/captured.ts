/** For tests of commands: what one prints, on which stream, and a folder of its own, fresh for every test. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const STREAMS = [process.stdout, process.stderr] as const;

export class Captured {
  folder = '';
  /** Standard output and standard error since the test began. */
  out = '';
  errors = '';
  #writes: readonly (typeof process.stdout.write)[] = [];

  begin(): void {
    this.folder = mkdtempSync(join(tmpdir(), 'shoal-command-'));
    this.clear();
    this.#writes = STREAMS.map(({ write }) => write);
    process.stdout.write = (text) => {
      this.out += String(text);
      return true;
    };
    process.stderr.write = (text) => {
      this.errors += String(text);
      return true;
    };
  }

  get all(): string {
    return this.out + this.errors;
  }

  clear(): void {
    this.out = '';
    this.errors = '';
  }

  end(): void {
    STREAMS.forEach((stream, index) => {
      stream.write = this.#writes[index] ?? stream.write;
    });
    process.exitCode = undefined;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
