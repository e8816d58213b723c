import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Live } from './live.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Counts; a negative number is urgent. */
function counted() {
  const live = new Live(
    0,
    (_: number, event: number) => event,
    (_before, after) => after < 0,
  );
  const shown: number[] = [];
  live.shown.subscribe((value) => void shown.push(value));
  return { live, shown };
}

test('numbers that come four times a second, now early, now late, are all shown, a little after', async () => {
  const { live, shown } = counted();
  for (let count = 1; count <= 40; count++) {
    live.dispatch(count);
    await vi.advanceTimersByTimeAsync(count % 2 === 0 ? 240 : 260);
  }
  await vi.advanceTimersByTimeAsync(250);
  expect(shown.length).toBeGreaterThanOrEqual(39);
  expect(shown.at(-1)).toBe(40);
});

test('a flood is shown four times a second, what a person waits for at once', async () => {
  const { live, shown } = counted();
  for (let count = 1; count <= 1_000; count++) {
    live.dispatch(count);
    await vi.advanceTimersByTimeAsync(1);
  }
  expect(shown.length).toBeLessThanOrEqual(6);
  live.dispatch(-1);
  expect(shown.at(-1)).toBe(-1);
  expect(live.current).toBe(-1);
});
