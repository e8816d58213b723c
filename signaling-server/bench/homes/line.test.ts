import { describe, expect, test } from 'vitest';
import { parseDelay, parseLoss, parseRate } from './line.ts';

describe('a home’s line', () => {
  test.each([
    ['20Mbit', 20e6],
    ['1.5mbit', 1.5e6],
    ['100kbit', 1e5],
    ['1Gbit', 1e9],
    ['250000bit', 250_000],
  ])('%s carries %d bits a second', (text, value) => expect(parseRate(text)).toEqual({ ok: true, value }));

  test.each(['', '20', '20MB', '-1Mbit', '1bit', '100Gbit', '20 Mbit', 'NaNMbit', '1e3Mbit'])(
    '"%s" is no rate',
    (text) => expect(parseRate(text)).toMatchObject({ ok: false, reason: expect.stringContaining(`not "${text}"`) }),
  );

  test.each([
    ['0ms', 0],
    ['12.5ms', 12.5],
  ])('%s is a time', (text, value) => expect(parseDelay(text)).toEqual({ ok: true, value }));

  test.each(['', '50', '1s', '-5ms', '2001ms'])('"%s" is no time', (text) =>
    expect(parseDelay(text)).toMatchObject({ ok: false, reason: expect.stringContaining(`not "${text}"`) }),
  );

  test.each([
    ['0', 0],
    ['0.005', 0.005],
    ['0.5%', 0.005],
  ])('%s is a share', (text, value) => expect(parseLoss(text)).toEqual({ ok: true, value }));

  test.each(['', '0.6', '51%', '-1', '1/2'])('"%s" is no share', (text) =>
    expect(parseLoss(text)).toMatchObject({ ok: false, reason: expect.stringContaining(`not "${text}"`) }),
  );
});
