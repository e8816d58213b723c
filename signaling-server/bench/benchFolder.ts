/** What benchmarks with a server and donors of their own leave behind: nothing, also where they are stopped in the middle. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { failed } from '../commands/failure.ts';
import { aborted, onInterrupt } from '../headless/interrupt.ts';

export interface BenchFolder {
  readonly path: string;
  /** Aborted when somebody stops the benchmark. */
  readonly signal: AbortSignal;
  /** The same, or a failure as soon as somebody stops the benchmark. */
  unlessStopped<Value>(work: Promise<Value>): Promise<Value>;
}

/** With an empty folder, which is removed when `measure` is over. */
export async function inBenchFolder<Value>(
  name: string,
  measure: (folder: BenchFolder) => Promise<Value>,
): Promise<Value> {
  const path = mkdtempSync(join(tmpdir(), `shoal-bench-${name}-`));
  const interrupt = onInterrupt();
  const clean = (): void => rmSync(path, { recursive: true, force: true });
  process.once('exit', clean); // a second signal ends this process wherever it is
  const stopped = aborted(interrupt.signal).then(() => {
    throw failed('stopped before all was measured');
  });
  stopped.catch(() => undefined); // nobody may be waiting for it
  try {
    return await measure({ path, signal: interrupt.signal, unlessStopped: (work) => Promise.race([work, stopped]) });
  } finally {
    interrupt.release();
    process.off('exit', clean);
    clean();
  }
}
