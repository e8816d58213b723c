import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { SOCKETS } from '../donors/door.ts';
import { Arrivals } from './arrivals.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => vi.useRealTimers());

test('two hundred join in ten seconds from wherever: all come in', () => {
  const arrivals = new Arrivals(SOCKETS);
  for (let number = 0; number < 200; number++) {
    expect(arrivals.may('192.0.2.1')).toBe(true);
    vi.advanceTimersByTime(50);
  }
});

test('a thousand that come back each second have their share, and an address that is new comes in at once', () => {
  const arrivals = new Arrivals(SOCKETS);
  let letIn = 0;
  for (let second = 0; second < 60; second++) {
    for (let stranger = 0; stranger < 1_000; stranger++) if (arrivals.may(`10.0.${stranger}`)) letIn++;
    if (second >= 30) expect(arrivals.may(`198.51.100.${second}`), `second ${second}`).toBe(true);
    vi.advanceTimersByTime(1_000);
  }
  expect(letIn).toBeLessThan(2 * (100 + 60 * 40));
  vi.advanceTimersByTime(60_000);
  expect(arrivals.may('10.0.1')).toBe(true);
});
