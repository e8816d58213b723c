import { afterEach, describe, expect, test, vi } from 'vitest';
import type { TurnError } from '../../../swarm/messages/turn.ts';
import { thisMoment } from '../page/clock.ts';
import { type DonorEvent, nextState } from './events.ts';
import { nextTrouble, restartPauseMs, slept, type Trouble } from './incidents.ts';
import { INITIAL_STATE } from './state.ts';

afterEach(() => {
  vi.useRealTimers();
});

const LOOKED_MS = Date.UTC(2026, 0, 1);
const JUMPS_MS = [-86_400_000, -3_000, 30_000, 86_400_000];

test('a second that took a minute was slept through, whatever became of the clock on the wall', () => {
  for (const jumpMs of [0, ...JUMPS_MS]) {
    const before = { wallMs: LOOKED_MS, monotonicMs: 1_000 };
    const now = { wallMs: LOOKED_MS + jumpMs, monotonicMs: 61_000 };
    expect(slept(before, { ...now, monotonicMs: 2_200 })).toBeNull();
    expect(slept(before, now)).toMatchObject({ atMs: now.wallMs, text: expect.stringContaining('for 60 s') });
  }
});

test('a wall clock that is set meanwhile is no sleep', () => {
  vi.useFakeTimers({ toFake: ['Date'], now: LOOKED_MS });
  for (const jumpMs of JUMPS_MS) {
    vi.setSystemTime(LOOKED_MS);
    const before = thisMoment();
    vi.setSystemTime(LOOKED_MS + jumpMs);
    const now = thisMoment();
    expect(now.wallMs - before.wallMs).toBe(jumpMs);
    expect(slept(before, now)).toBeNull();
  }
});

test('a TURN server that fails is told of once a visit, and again when it fails otherwise', () => {
  const measured = (atMs: number, ...turnErrors: readonly TurnError[]): DonorEvent => ({
    ...{ type: 'linksMeasured', atMs },
    measured: { links: [], ...(turnErrors.length > 0 && { turnErrors }) },
  });
  const [refuses, isAway] = [401, 701].map((code) => ({ url: 'turn:t.example', code })) as [TurnError, TurnError];
  const incidents = (...events: readonly DonorEvent[]) => events.reduce(nextState, INITIAL_STATE).incident;
  const first = incidents(measured(1, refuses));
  expect(first).toMatchObject({
    ...{ atMs: 1, text: expect.stringContaining('turn:t.example refuses the user name or password (error 401). ') },
  });
  expect(incidents(measured(1, refuses), measured(2, refuses), measured(3), measured(4, refuses))).toEqual(first);
  expect(incidents(measured(1, refuses), measured(2, isAway))).toMatchObject({
    ...{ atMs: 2, text: expect.stringContaining('turn:t.example cannot be reached (error 701). ') },
  });
  expect(incidents(measured(1))).toBeNull();
  expect(incidents(measured(1, refuses), { type: 'donateClicked' }, measured(2, refuses))?.atMs).toBe(2);
});

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
