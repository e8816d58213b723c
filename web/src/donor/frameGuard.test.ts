import { expect, test } from 'vitest';
import { FrameGuard } from './frameGuard.ts';

/** Seconds of frames, each so long; returns when the last one was. */
function draw(guard: FrameGuard, fromMs: number, seconds: number, intervals: readonly number[]): number {
  let atMs = fromMs;
  for (let i = 0; atMs < fromMs + seconds * 1_000; i++) {
    atMs += intervals[i % intervals.length] ?? 0;
    guard.frame(atMs);
  }
  return atMs;
}

const SMOOTH = [16.7];
/** Every sixth frame takes as long as six: what a long dispatch does. */
const STUTTER = [16.7, 16.7, 16.7, 16.7, 16.7, 100];

test('frames in time cost nothing, on screens of any rate', () => {
  for (const interval of [4.2, 6.9, 16.7, 33.3]) {
    const guard = new FrameGuard();
    draw(guard, 0, 10, [interval]);
    expect(guard.factor).toBe(1);
  }
});

test('a stutter takes a third off a second, down to a tenth; then it comes back by itself', () => {
  const guard = new FrameGuard();
  let atMs = draw(guard, 0, 3, SMOOTH);
  atMs = draw(guard, atMs, 2.2, STUTTER);
  expect(guard.factor).toBeCloseTo(4 / 9);
  atMs = draw(guard, atMs, 20, STUTTER);
  expect(guard.factor).toBe(0.1);
  atMs = draw(guard, atMs, 5, SMOOTH);
  expect(guard.factor).toBeGreaterThan(0.1);
  draw(guard, atMs, 15, SMOOTH);
  expect(guard.factor).toBe(1);
});

test('a page that was away, or one frame that is late, is no stutter', () => {
  const guard = new FrameGuard();
  const atMs = draw(guard, 0, 3, SMOOTH);
  guard.pause();
  draw(guard, atMs + 60_000, 2, SMOOTH);
  guard.pause();
  draw(guard, atMs + 70_000, 3, [...Array<number>(60).fill(16.7), 120]);
  expect(guard.factor).toBe(1);
});

test('it begins anew with all that the person gives', () => {
  const guard = new FrameGuard();
  draw(guard, draw(guard, 0, 3, SMOOTH), 5, STUTTER);
  guard.reset();
  expect(guard.factor).toBe(1);
});
