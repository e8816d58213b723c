import { afterEach, expect, test, vi } from 'vitest';
import { thisMoment } from '../page/clock.ts';
import { slept } from './incidents.ts';

afterEach(() => {
  vi.useRealTimers();
});

const LOOKED_MS = Date.UTC(2026, 0, 1);
const JUMPS_MS = [-86_400_000, -3_000, 30_000, 86_400_000];

test('[SV11] a second that took a minute was slept through, whatever became of the clock on the wall', () => {
  for (const jumpMs of [0, ...JUMPS_MS]) {
    const before = { wallMs: LOOKED_MS, monotonicMs: 1_000 };
    const now = { wallMs: LOOKED_MS + jumpMs, monotonicMs: 61_000 };
    expect(slept(before, { ...now, monotonicMs: 2_200 })).toBeNull();
    expect(slept(before, now)).toMatchObject({ atMs: now.wallMs, text: expect.stringContaining('for 60 s') });
  }
});

test('[SV11] a wall clock that is set meanwhile is no sleep', () => {
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
