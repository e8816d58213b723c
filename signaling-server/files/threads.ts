/**
 * Threads that are waited for before a process ends. Node stops those that still run; one that is inside SQLite then throws
 * where nobody can catch it, and the whole process is aborted (status 134 in place of its own).
 */
import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';

const running = new Set<Worker>();

/** It keeps no process alive by itself, and is not cut off either. */
export function endsByItself(worker: Worker): void {
  worker.unref();
  running.add(worker);
  worker.once('exit', () => running.delete(worker));
}

/** Resolves once all of them have ended. */
export async function threadsEnded(): Promise<void> {
  await Promise.all(
    [...running].map((worker) => {
      worker.ref();
      return once(worker, 'exit');
    }),
  );
}
