import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { wallMs } from '../page/clock.ts';
import { lastDonation, markDonating } from './reload.ts';
import type { Rest } from './state.ts';

const LEFT_MS = Date.UTC(2026, 0, 1);
const SEEN = { run: 'whale', committedSteps: 40 };

class Navigation {
  readonly type = 'reload';
}

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
  vi.stubGlobal('PerformanceNavigationTiming', Navigation);
  // Not all of it: fake clocks that are made while it lacks `now` leave that alone in every later test.
  vi.spyOn(performance, 'getEntriesByType').mockReturnValue([new Navigation() as unknown as PerformanceEntry]);
  vi.useFakeTimers({ toFake: ['Date'], now: LEFT_MS });
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** What a reload finds `laterMs` after the page went, by the wall clock. */
function reloadedAfter(laterMs: number, rest: Rest | null = null): ReturnType<typeof lastDonation> {
  vi.setSystemTime(LEFT_MS);
  markDonating({ atMs: wallMs(), rest, seen: SEEN });
  vi.setSystemTime(LEFT_MS + laterMs);
  return lastDonation(wallMs());
}

test('a reload goes on, also where the wall clock was set by some seconds meanwhile', () => {
  expect(reloadedAfter(1_000)).toEqual({ untilMs: LEFT_MS, goesOn: true, rest: null, seen: SEEN });
  expect(reloadedAfter(30_000)).toEqual({ untilMs: LEFT_MS, goesOn: true, rest: null, seen: SEEN });
  expect(reloadedAfter(-3_000)).toEqual({ untilMs: LEFT_MS - 3_000, goesOn: true, rest: null, seen: SEEN });
});

test('after a day, forward or back, nothing goes on by itself, and the page left at no time to come', () => {
  expect(reloadedAfter(86_400_000)).toEqual({ untilMs: LEFT_MS, goesOn: false, rest: null, seen: SEEN });
  expect(reloadedAfter(-86_400_000)).toEqual({ untilMs: LEFT_MS - 86_400_000, goesOn: false, rest: null, seen: SEEN });
});

test('the mark is taken once, and a page that does not donate leaves none', () => {
  markDonating({ atMs: LEFT_MS, rest: null, seen: SEEN });
  expect(lastDonation(LEFT_MS)?.goesOn).toBe(true);
  expect(lastDonation(LEFT_MS)).toBeNull();
  markDonating({ atMs: LEFT_MS, rest: null, seen: SEEN });
  markDonating(null);
  expect(lastDonation(LEFT_MS)).toBeNull();
});

test('who rested by a wish of its own rests on, and a mark that is none is ignored', () => {
  const rest = { kind: 'snooze', untilMs: LEFT_MS + 900_000 } as const;
  expect(reloadedAfter(1_000, rest)).toEqual({ untilMs: LEFT_MS, goesOn: true, rest, seen: SEEN });
  sessionStorage.setItem('shoal.donating', '{"atMs":"now"}');
  expect(lastDonation(LEFT_MS)).toBeNull();
});
