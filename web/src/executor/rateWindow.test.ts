import { expect, test } from 'vitest';
import { RateWindow } from './rateWindow.ts';

test('the mean of the ten newest whole seconds, and the most that one had', () => {
  let now = 100;
  const rate = new RateWindow(() => now);
  expect([rate.bytesPerSecond, rate.most]).toEqual([0, 0]);
  rate.add(300);
  now = 100.9;
  rate.add(200);
  // The second is not over.
  expect([rate.bytesPerSecond, rate.most]).toEqual([0, 500]);
  now = 103;
  rate.add(100);
  now = 104;
  expect([rate.bytesPerSecond, rate.most]).toEqual([60, 500]);
  now = 110.5;
  expect(rate.bytesPerSecond).toBe(60);
  now = 111;
  expect(rate.bytesPerSecond).toBe(10);
  now = 200;
  expect([rate.bytesPerSecond, rate.most]).toEqual([0, 500]);
});
