import { expect, test } from 'vitest';
import { limitsFragment, limitsOfFragment, NO_LIMITS, parseDonorSpec } from './limits.ts';

const ALL = {
  speed: 0.5,
  memoryBytes: 268_435_456,
  hostBytes: 2 ** 30,
  uploadBytesPerSecond: 2_000_000,
  downloadBytesPerSecond: 8_000_000,
};

test('a donor spec is read with its units', () => {
  const spec = parseDonorSpec('own,browser=chromium,speed=0.5,memory=256MiB,host=1GiB,upload=2MB/s,download=8MB/s');
  expect(spec).toEqual({ ok: true, value: { browser: 'chromium', limits: ALL, isOwn: true } });
  expect(parseDonorSpec('')).toEqual({ ok: true, value: { browser: null, limits: NO_LIMITS, isOwn: false } });
  expect(parseDonorSpec('browser=firefox')).toMatchObject({ ok: true, value: { browser: 'firefox' } });
  expect(parseDonorSpec('upload=1.5kB/s,download=64KiB/s')).toMatchObject({ ok: false });
  expect(parseDonorSpec('memory=1GiB')).toMatchObject({ value: { limits: { ...NO_LIMITS, memoryBytes: 2 ** 30 } } });
});

test.each([
  ['speed=2', 'a number from 0.05 to 1'],
  ['speed=fast', 'a number from 0.05 to 1'],
  ['speed', 'name=value'],
  ['speed=1,speed=1', 'twice'],
  ['own,own', 'own or name=value'],
  ['memory=256', 'MiB'],
  ['memory=1KiB', 'at least 1MiB'],
  ['memory=256MiB/s', 'MiB'],
  ['host=2', 'MiB'],
  ['host=2000000GiB', 'at most 1048576GiB'],
  ['upload=2MB', 'a second'],
  ['upload=2XB/s', 'a second'],
  ['upload=1..2MB/s', 'a second'],
  ['colour=red', 'unknown'],
  ['browser=lynx', 'expected chromium or firefox'],
])('a donor spec of %s is refused: %s', (text, words) => {
  expect(parseDonorSpec(text)).toMatchObject({ ok: false, reason: expect.stringContaining(words) });
});

test('limits survive the way through a link; what is no limit there is passed over', () => {
  expect(limitsOfFragment(limitsFragment(ALL))).toEqual(ALL);
  expect(limitsFragment(NO_LIMITS)).toBe('');
  expect(limitsOfFragment('invite=x&speed=7&memory=&upload=much&download=8000000')).toEqual({
    ...NO_LIMITS,
    downloadBytesPerSecond: 8_000_000,
  });
});
