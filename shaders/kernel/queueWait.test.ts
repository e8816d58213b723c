/** Waiting on a device whose queue is looked at by a slow timer, and by whatever is submitted. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { emptyWaitOf, mapped, measureEmptyWait, queueDone } from './queueWait.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const now = (): number => performance.now() / 1000;

/** A browser that looks every `everyMs` and, where `looksAtSubmits`, when something is submitted: once `busyMs` are over. */
function browser(everyMs: number, looksAtSubmits: boolean) {
  const waiting = new Set<{ readonly endMs: number; readonly tell: () => void }>();
  const state = { submits: 0, busyMs: 0, lose: (): void => {} };
  const look = (): void => {
    for (const wait of waiting) {
      if (performance.now() < wait.endMs) continue;
      waiting.delete(wait);
      wait.tell();
    }
  };
  const wait = (): Promise<void> =>
    new Promise((resolve) => waiting.add({ endMs: performance.now() + state.busyMs, tell: resolve }));
  setInterval(look, everyMs);
  const queue = {
    onSubmittedWorkDone: wait,
    submit: () => {
      state.submits++;
      if (looksAtSubmits) look();
    },
  };
  const lost = new Promise<void>((resolve) => {
    state.lose = resolve;
  });
  const device = { queue, lost } as unknown as GPUDevice;
  const buffer = { size: 4, mapAsync: wait } as unknown as GPUBuffer;
  return { device, buffer, state };
}

/** Runs the fake clock until this is settled. */
async function settled<T>(work: Promise<T>): Promise<T> {
  let over = false;
  const ended = work.finally(() => {
    over = true;
  });
  while (!over) await vi.advanceTimersByTimeAsync(1);
  return ended;
}

test('a queue that answers late is prompted while something is awaited, and only then', async () => {
  const { device, buffer, state } = browser(100, true);
  const { medianSeconds } = await settled(measureEmptyWait(device, now));
  expect(medianSeconds).toBeLessThan(0.005);
  expect(emptyWaitOf(device).medianSeconds).toBe(medianSeconds);
  state.busyMs = 30;
  const begun = performance.now();
  await settled(Promise.all([queueDone(device), mapped(device, buffer)]));
  expect(performance.now() - begun).toBeLessThan(35);
  const { submits } = state;
  await vi.advanceTimersByTimeAsync(1000);
  expect(state.submits).toBe(submits);
});

test('a queue that answers promptly is never prompted', async () => {
  const { device, buffer, state } = browser(1, true);
  await settled(measureEmptyWait(device, now));
  await settled(Promise.all([queueDone(device), mapped(device, buffer)]));
  expect(state.submits).toBe(0);
});

test('where prompting is no help it ends, and what a wait takes is known', async () => {
  const { device, state } = browser(100, false);
  expect((await settled(measureEmptyWait(device, now))).leastSeconds).toBeGreaterThan(0.09);
  const { submits } = state;
  await settled(queueDone(device));
  expect(state.submits).toBe(submits);
});

test('a lost device is not prompted any more', async () => {
  const { device, state } = browser(100, true);
  await settled(measureEmptyWait(device, now));
  state.busyMs = 1e9;
  void queueDone(device);
  await vi.advanceTimersByTimeAsync(10);
  state.lose();
  await vi.advanceTimersByTimeAsync(1);
  const { submits } = state;
  await vi.advanceTimersByTimeAsync(1000);
  expect(state.submits).toBe(submits);
});

/** Sources without their tests. */
function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sources(path);
    return /(?<!\.test)\.tsx?$/.test(entry.name) ? [path] : [];
  });
}

test('nothing else waits for a queue', () => {
  const root = join(import.meta.dirname, '..', '..');
  const waits = ['shaders', 'web', 'signaling-server']
    .flatMap((folder) => sources(join(root, folder)))
    .filter((path) => /\.(onSubmittedWorkDone|mapAsync)\(/.test(readFileSync(path, 'utf8')));
  expect(waits).toEqual([join(root, 'shaders', 'kernel', 'queueWait.ts')]);
});
