import { expect, test } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { Voices } from './voices.ts';

const [A, B] = [peerId('a'), peerId('b')];
const MINUTE_MS = 60_000;

test('[AP7] three looks in vain are free, then each silences for twice as long, an hour at most', () => {
  const voices = new Voices();
  let nowMs = 0;
  const silences: number[] = [];
  for (let look = 0; look < 12; look++) {
    expect(voices.says(A, 'a drifts', nowMs)).toBe(true);
    voices.inVain([A], nowMs);
    const from = nowMs;
    while (!voices.says(A, 'a drifts', nowMs)) nowMs += MINUTE_MS / 2;
    silences.push((nowMs - from) / MINUTE_MS);
  }
  expect(silences).toEqual([0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
  expect(voices.says(B, 'b drifts', 0)).toBe(true);
});

test('[AP7] a word of someone who is not listened to is heard later, the newest one, once', () => {
  const voices = new Voices();
  for (let look = 0; look < 3; look++) voices.inVain([A], 0);
  expect(voices.says(A, 'first', 1)).toBe(false);
  expect(voices.says(A, 'second', 2)).toBe(false);
  expect(voices.late(A, 3)).toBeNull();
  expect(voices.late(A, MINUTE_MS)).toBe('second');
  expect(voices.late(A, MINUTE_MS)).toBeNull();
});

test('[AP7] a plan is judged by what its steps take: shorter ones restore the voice, others cost it', () => {
  for (const [after, isHeard] of [
    [0.9, true],
    [0.99, false],
    [1.5, false],
  ] as const) {
    const voices = new Voices();
    for (let look = 0; look < 2; look++) voices.inVain([A], 0);
    voices.began([A], 1, 0);
    voices.took(after, 9, 0);
    expect(voices.says(A, 'too early to say', 0)).toBe(true);
    voices.took(after, 10, 0);
    expect(voices.says(A, 'again', 0)).toBe(isHeard);
  }
});

test('[AP7] a plan that ends before it is judged was in vain', () => {
  const voices = new Voices();
  for (let plan = 0; plan < 3; plan++) voices.began([A], null, 0);
  expect(voices.says(A, 'a swings', 0)).toBe(true);
  voices.began([], null, 0);
  expect(voices.says(A, 'a swings', 0)).toBe(false);
});
