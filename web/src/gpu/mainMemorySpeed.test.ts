import { expect, test } from 'vitest';
import { mainMemorySpeed } from './mainMemorySpeed.ts';

test('main memory is as fast as its best round: seconds an element, whatever else ran in the others', () => {
  // Each round takes so long by this clock: the third of the sums, and the last of the updates, are undisturbed.
  const rounds = [9, 8, 1, 7, 4, 6, 6, 6, 6, 3];
  let [calls, seconds] = [0, 0];
  const speed = mainMemorySpeed(() => {
    if (calls % 2 === 1) seconds += rounds[(calls - 1) / 2] ?? Number.NaN;
    calls++;
    return seconds;
  });
  expect(calls).toBe(2 * rounds.length);
  expect(speed).toEqual({ sumSeconds: 1 / 2 ** 18, updateSeconds: 3 / 2 ** 18 });
});

test('a clock that stands says 0, and is not believed', () => {
  expect(mainMemorySpeed(() => 1)).toEqual({ sumSeconds: 0, updateSeconds: 0 });
});
