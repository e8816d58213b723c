import { expect, it } from 'vitest';
import { minuteBytes } from './publicStatus.ts';

const stepOf = (plan: number, donors: number, bytesDirect: number) => ({
  ...{ plan, donors, bytesDirect, bytesRelayed: 100, seconds: 2 },
});

it('[OP15] what a donor moves in a minute is both ends of what the newest plan’s steps send, shared by its donors', () => {
  // (2 · 1,000 / 4 + 2 · 3,000 / 4) bytes in 4 s.
  expect(minuteBytes([stepOf(1, 2, 9e9), stepOf(2, 4, 900), stepOf(2, 4, 2_900)])).toBe((2_000 / 4) * 60);
  expect(minuteBytes([stepOf(1, 2, 900), stepOf(2, 1, 0)])).toBe(null);
  expect(minuteBytes([])).toBe(null);
});
