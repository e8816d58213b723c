import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { hasHelped, isHeard, lookedInVain, NEW_STANDING, restored } from './standing.ts';

const MINUTE_MS = 60_000;

test('three looks in vain are free, then each silences for twice as long, an hour at most', () => {
  let standing = NEW_STANDING;
  let nowMs = 0;
  const silences: number[] = [];
  for (let look = 0; look < 12; look++) {
    expect(isHeard(standing, nowMs)).toBe(true);
    standing = lookedInVain(standing, nowMs);
    const from = nowMs;
    while (!isHeard(standing, nowMs)) nowMs += MINUTE_MS / 2;
    silences.push((nowMs - from) / MINUTE_MS);
  }
  expect(silences).toEqual([0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
});

test('one that helped is heard again, with what it said meanwhile', () => {
  let standing = { ...NEW_STANDING, deferredReason: 'a drifts' };
  for (let look = 0; look < 3; look++) standing = { ...lookedInVain(standing, 0), deferredReason: 'a drifts' };
  expect(isHeard(standing, 1)).toBe(false);
  expect(restored(standing)).toEqual({ ...NEW_STANDING, deferredReason: 'a drifts' });
});

test('a plan has helped where steps became shorter by a fiftieth, and there were steps', () => {
  const trial = (beforeSeconds: number | null) => ({ by: [peerId('a')], beforeSeconds });
  expect([0.9, 0.99, 1.5, null].map((after) => hasHelped(trial(1), after))).toEqual([true, false, false, false]);
  expect(hasHelped(trial(null), 0.1)).toBe(false);
});
