import { expect, test, vi } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { JoinDelays } from './joinDelays.ts';

const [HERE, THERE] = ['192.0.2.1', '192.0.2.2'];
const MINUTE_MS = 60_000;

test('[SV9] five losses of an address are free, then newcomers of it wait, each time for twice as long', () => {
  const delays = new JoinDelays();
  const waits: number[] = [];
  for (let nowMs = 0; waits.length < 14; nowMs += 20_000) {
    delays.lost(HERE, nowMs);
    waits.push(delays.waitMs(HERE, nowMs) / MINUTE_MS);
  }
  expect(waits).toEqual([0, 0, 0, 0, 0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]);
  expect(delays.waitMs(THERE, 0)).toBe(0);
});

test('[SV14] many who vanish at once count once; time forgives', () => {
  const delays = new JoinDelays();
  for (let donor = 0; donor < 100; donor++) delays.lost(HERE, 90 * donor);
  expect(delays.waitMs(HERE, 9_000)).toBe(0);
  for (let loss = 0; loss < 6; loss++) delays.lost(HERE, MINUTE_MS * loss);
  expect(delays.waitMs(HERE, 5 * MINUTE_MS)).toBeGreaterThan(0);
  expect(delays.waitMs(HERE, 60 * MINUTE_MS)).toBe(0);
});

test('[SV9] one that waits is taken in by itself, unless it is gone', () => {
  vi.useFakeTimers();
  try {
    const delays = new JoinDelays();
    for (let loss = 0; loss < 6; loss++) delays.lost(HERE, monotonicMs() - 10_000 * (6 - loss) - 1);
    const joined: string[] = [];
    for (const name of ['stays', 'goes'])
      expect(delays.asked(peerId(name), HERE, () => joined.push(name))).toBe('later');
    expect(delays.asked(peerId('other'), THERE, () => joined.push('other'))).toBe('now');
    delays.gone(peerId('goes'));
    vi.advanceTimersByTime(MINUTE_MS);
    expect(joined).toEqual(['other', 'stays']);
  } finally {
    vi.useRealTimers();
  }
});
