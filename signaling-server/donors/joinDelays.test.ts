import { expect, test, vi } from 'vitest';
import { type PeerId, peerId } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { JoinDelays } from './joinDelays.ts';

const [HERE, THERE] = ['192.0.2.1', '192.0.2.2'];
const MINUTE_MS = 60_000;

/** Who came and went just now. */
const lostAt = (delays: JoinDelays, nowMs: number): void => delays.lost(HERE, nowMs, nowMs);

test('one loss of an address is free, then newcomers of it wait, each time for twice as long', () => {
  const delays = new JoinDelays();
  const waits: number[] = [];
  for (let nowMs = 0; waits.length < 10; nowMs += 20_000) {
    lostAt(delays, nowMs);
    waits.push(delays.waitMs(HERE, nowMs) / MINUTE_MS);
  }
  expect(waits).toEqual([0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]);
  expect(delays.waitMs(THERE, 0)).toBe(0);
});

test('those who came before a loss and go with it count once; time forgives', () => {
  const delays = new JoinDelays();
  for (let donor = 0; donor < 100; donor++) delays.lost(HERE, -donor, 90 * donor);
  expect(delays.waitMs(HERE, 9_000)).toBe(0);
  lostAt(delays, 9_500); // it came after the loss: another visit
  expect(delays.waitMs(HERE, 9_500)).toBeGreaterThan(0);
  for (let loss = 1; loss < 6; loss++) lostAt(delays, MINUTE_MS * loss);
  expect(delays.waitMs(HERE, 5 * MINUTE_MS)).toBeGreaterThan(0);
  expect(delays.waitMs(HERE, 65 * MINUTE_MS)).toBe(0);
});

test('who was shown to harm the run waits five minutes, then an hour, twelve, a day; a day forgives one', () => {
  const delays = new JoinDelays();
  const waits: number[] = [];
  let nowMs = 0;
  for (let time = 0; time < 5; time++) {
    delays.convicted(HERE, nowMs);
    waits.push(delays.waitMs(HERE, nowMs) / MINUTE_MS);
    nowMs += MINUTE_MS;
  }
  expect(waits).toEqual([5, 60, 720, 1_440, 1_440]);
  expect(delays.waitMs(THERE, nowMs)).toBe(0);
  const last = nowMs - MINUTE_MS;
  expect(delays.waitMs(HERE, last + 1_440 * MINUTE_MS)).toBe(0);
  delays.convicted(HERE, last + 3 * 1_440 * MINUTE_MS);
  expect(delays.waitMs(HERE, last + 3 * 1_440 * MINUTE_MS)).toBe(720 * MINUTE_MS);
});

const donors = (count: number): PeerId[] => Array.from({ length: count }, (_, number) => peerId(`donor-${number}`));

test('a class of thirty at one address loses a third of it one by one, and the next pupil is taken at once', () => {
  vi.useFakeTimers();
  try {
    const delays = new JoinDelays();
    for (const peer of donors(30)) expect(delays.asked(peer, HERE, () => {})).toBe('now');
    vi.advanceTimersByTime(MINUTE_MS);
    for (const peer of donors(10)) {
      vi.advanceTimersByTime(11_000);
      delays.gone(peer);
      lostAt(delays, monotonicMs());
    }
    expect(delays.asked(peerId('late'), HERE, () => {})).toBe('now');
    for (const peer of donors(30)) delays.gone(peer);
    expect(delays.waitMs(HERE, monotonicMs())).toBeGreaterThan(0);
  } finally {
    vi.useRealTimers();
  }
});

test('one that waits is taken in by itself, unless it is gone', () => {
  vi.useFakeTimers();
  try {
    const delays = new JoinDelays();
    for (let loss = 0; loss < 2; loss++) lostAt(delays, monotonicMs());
    const joined: string[] = [];
    for (const name of ['stays', 'goes'])
      expect(delays.asked(peerId(name), HERE, () => joined.push(name))).toBe('later');
    expect(delays.asked(peerId('other'), THERE, () => joined.push('other'))).toBe('now');
    expect(['stays', 'other'].map((name) => delays.isWaiting(peerId(name)))).toEqual([true, false]);
    delays.gone(peerId('goes'));
    vi.advanceTimersByTime(MINUTE_MS);
    expect(joined).toEqual(['other', 'stays']);
    expect(delays.isWaiting(peerId('stays'))).toBe(false);
  } finally {
    vi.useRealTimers();
  }
});
