import { describe, expect, test } from 'vitest';
import { nextTrouble, restartPauseMs, type Trouble } from './restart.ts';

/** Pauses until it gives up, each failure coming `costMs` after its try. */
function pauses(reason: 'deviceLost' | 'internal', costMs: number, hasComputed = false, most = 100): number[] {
  const all: number[] = [];
  let trouble: Trouble | null = null;
  for (let nowMs = 0; all.length < most; ) {
    trouble = nextTrouble(trouble, nowMs, hasComputed);
    const pauseMs = restartPauseMs(trouble, reason);
    if (pauseMs === null) return all;
    all.push(pauseMs);
    nowMs += pauseMs + costMs;
  }
  return all;
}

describe('restart', () => {
  test('a lost device is tried at once, then for a little more than two minutes', () => {
    const all = pauses('deviceLost', 100);
    expect(all.slice(0, 3)).toEqual([300, 5_000, 5_000]);
    const seconds = all.reduce((sum, pause) => sum + pause + 100, 0) / 1_000;
    expect(seconds).toBeGreaterThan(125);
    expect(seconds).toBeLessThan(140);
  });

  test('a device that is lost thirty times is tried each time, where it computed in between', () => {
    expect(pauses('deviceLost', 20_000, true, 30)).toHaveLength(30);
  });

  test('a fault of the page gets three tries', () => {
    expect(pauses('internal', 1_000)).toEqual([500, 2_000, 8_000]);
    expect(pauses('internal', 1_000, true)).toEqual([500, 2_000, 8_000]);
  });

  test('a failure after a calm minute is a first one', () => {
    const first = nextTrouble(null, 0, false);
    const second = nextTrouble(first, 59_000, false);
    expect(second).toEqual({ sinceMs: 0, lastMs: 59_000, count: 2 });
    expect(nextTrouble(second, 119_001, false)).toEqual({ sinceMs: 119_001, lastMs: 119_001, count: 1 });
  });
});
