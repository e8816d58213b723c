import { beforeEach, expect, test, vi } from 'vitest';
import * as runDocument from '../store/runDocument.ts';
import { followQueue, setQueued, takeNext } from './queue.ts';

/** Runs as the store has them: how many of their ten steps are done. */
function stored(done: Readonly<Record<string, number>>) {
  let queue: readonly string[] = [];
  const document = (name: string) => JSON.stringify({ file: { name, train: { steps: 10 } } });
  return {
    queue: () => [...queue],
    saveQueue: (names: readonly string[]) => {
      queue = names;
    },
    besideRuns: () => ['beside'],
    run: (name: string) => (name in done ? ({ name, document: document(name) } as never) : null),
    shares: () => [],
    steps: () => [],
    committedSteps: (name: string) => done[name] ?? 0,
  };
}

// A run document is more than a queue looks at.
beforeEach(() => void vi.spyOn(runDocument, 'parseDocument').mockImplementation((text) => JSON.parse(text)));

test('what is active, finished or unknown is not queued; the rest comes in order, once', () => {
  const store = stored({ now: 3, first: 0, second: 4, old: 10, beside: 1 });
  for (const [name, reason] of [
    ['now', /active already/],
    ['beside', /active already/],
    ['old', /finished/],
    ['none', /there is no run "none" here/],
  ] as const)
    expect(setQueued(store, 'now', name, true)).toMatchObject({ ok: false, reason: expect.stringMatching(reason) });
  for (const name of ['first', 'second', 'first']) expect(setQueued(store, 'now', name, true).ok).toBe(true);
  expect(store.queue()).toEqual(['second', 'first']);
  expect(setQueued(store, 'now', 'second', false).ok).toBe(true);
  expect(takeNext(store, 'now')).toBe('first');
  expect([takeNext(store, 'now'), store.queue()]).toEqual([null, []]);
});

test('the next run takes over when the active one is finished, not before, and is looked for again then', () => {
  vi.useFakeTimers();
  const store = stored({ now: 10, next: 0 });
  const watchers = new Set<() => void>();
  const run = {
    name: 'now',
    phase: 'training' as 'training' | 'finished',
    onChange: (watch: () => void) => {
      watchers.add(watch);
      return () => void watchers.delete(watch);
    },
    tellWatchers: () => {},
    keep: (write: () => void) => write(),
  };
  const activated: string[] = [];
  const end = followQueue(run, store, (name) => activated.push(name), 1_000);
  setQueued(store, 'now', 'next', true);
  for (const watch of watchers) watch();
  vi.runAllTimers();
  expect(activated).toEqual([]);
  run.phase = 'finished';
  for (const watch of watchers) watch();
  // Somebody takes it out while the end is shown, and puts it back.
  setQueued(store, 'now', 'next', false);
  vi.runAllTimers();
  expect(activated).toEqual([]);
  setQueued(store, 'now', 'next', true);
  for (const watch of watchers) watch();
  vi.runAllTimers();
  expect(activated).toEqual(['next']);
  end();
  expect(watchers.size).toBe(0);
  vi.useRealTimers();
});
