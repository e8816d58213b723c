/** What a process waits for before it ends. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { endsByItself, threadsEnded } from './threads.ts';

test('a process waits for threads that are at work, and for none that have ended', async () => {
  const words = new Int32Array(new SharedArrayBuffer(8));
  // It is where nothing from outside reaches it, as inside SQLite, until the test lets it go on.
  const code = `const { parentPort, workerData } = require('node:worker_threads');
    parentPort.postMessage('begun');
    Atomics.wait(workerData, 0, 0);
    Atomics.store(workerData, 1, 1);`;
  const worker = new Worker(code, { eval: true, workerData: words });
  endsByItself(worker);
  await once(worker, 'message');
  let hasEnded = false;
  const ended = threadsEnded().then(() => {
    hasEnded = true;
  });
  await new Promise(setImmediate);
  expect(hasEnded).toBe(false);
  Atomics.store(words, 0, 1);
  Atomics.notify(words, 0);
  await ended;
  expect(Atomics.load(words, 1)).toBe(1);
  await threadsEnded();
});
