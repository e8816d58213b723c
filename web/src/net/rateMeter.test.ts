import { expect, test } from 'vitest';
import { loneRate } from './rateMeter.ts';

test('[WP18] a lone stretch tells of the link’s rate where it took three round trips or more', () => {
  expect(loneRate(60_000, 300, 100)).toBe(300_000);
  expect(loneRate(60_000, 299, 100)).toBeNull();
  expect(loneRate(60_000, 20, 0)).toBe(3_000_000);
  expect(loneRate(60_000, 0, 0)).toBeNull();
});
