import { expect, test } from 'vitest';
import { browserOf, isPhone } from './machine.ts';

const CHROME = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
const PIXEL =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36';
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1';
const FIREFOX = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0';

test('a browser is known by the most exact name it gives', () => {
  expect(browserOf(CHROME)).toBe('Chrome');
  expect(browserOf(`${CHROME} Edg/140.0.0.0`)).toBe('Edge');
  expect(browserOf(FIREFOX)).toBe('Firefox');
  expect(browserOf(IPHONE)).toBe('Safari');
  expect(browserOf('curl/8')).toBeNull();
});

test('phones are told from computers', () => {
  expect([CHROME, FIREFOX, PIXEL, IPHONE].map(isPhone)).toEqual([false, false, true, true]);
});
