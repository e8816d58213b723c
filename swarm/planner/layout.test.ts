import { expect, test } from 'vitest';
import { seededRandom } from '../base.ts';
import { levelShares } from './sizing.ts';

test('everyone takes the level, or all that they have room for', () => {
  expect(levelShares([10, 10, 10], 6)).toEqual([2, 2, 2]);
  expect(levelShares([1, 10, 2], 8)).toEqual([1, 5, 2]);
  expect(levelShares([0, 3], 3)).toEqual([0, 3]);
  expect(levelShares([4, 4], 0)).toEqual([0, 0]);
});

test('rooms that are too small together are all full', () => {
  expect(levelShares([1, 2], 3.5)).toEqual([1, 2]);
});

test('shares fit, add up, and no smaller level holds the state', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom(seed);
    const rooms = Array.from({ length: 1 + Math.floor(random() * 8) }, () => (random() < 0.2 ? 0 : random() * 10));
    const state = random() * rooms.reduce((sum, room) => sum + room, 0);
    const shares = levelShares(rooms, state) ?? [];
    expect(
      shares.reduce((sum, share) => sum + share, 0),
      `seed ${seed}`,
    ).toBeCloseTo(state, 9);
    const level = Math.max(...shares);
    for (const [peer, share] of shares.entries()) {
      expect(share, `seed ${seed}`).toBeLessThanOrEqual((rooms[peer] ?? 0) + 1e-12);
      if (share < level - 1e-12) expect(share, `seed ${seed}`).toBe(rooms[peer]);
    }
  }
});
