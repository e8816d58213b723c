import { expect, test } from 'vitest';
import { loneRate, RateMeter, RoundTrips } from './rateMeter.ts';

test('[WP30] a lone stretch tells of the link’s rate where it took three round trips or more', () => {
  expect(loneRate(60_000, 300, 100)).toBe(300_000);
  expect(loneRate(60_000, 299, 100)).toBeNull();
  expect(loneRate(60_000, 20, 0)).toBe(3_000_000);
  expect(loneRate(60_000, 0, 0)).toBeNull();
});

test('[AP4] of the newest measurements the best counts, and what is old is forgotten', () => {
  const [meter, trips] = [new RateMeter(), new RoundTrips()];
  expect([meter.bytesPerSecond, trips.milliseconds]).toEqual([null, null]);
  for (const ms of [30, 2, 50]) {
    trips.sample(ms);
    meter.sample(1_000, 10 * ms, 0);
  }
  expect([meter.bytesPerSecond, trips.milliseconds]).toEqual([50_000, 2]);
  for (let count = 0; count < 8; count++) {
    trips.sample(40);
    meter.sample(1_000, 100, 0);
  }
  expect([meter.bytesPerSecond, trips.milliseconds]).toEqual([10_000, 40]);
});
