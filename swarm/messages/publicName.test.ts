import { expect, test } from 'vitest';
import { NAME_LENGTH_LIMIT, nameProblem, tidyName } from './publicName.ts';

test('a name is any visible text of bounded length, markup too: it is shown as text', () => {
  for (const name of [
    '',
    'Ada',
    'Żółw 🐢',
    '李雷',
    'ராஜ்',
    '<img src=x onerror=alert(1)>',
    'x'.repeat(NAME_LENGTH_LIMIT),
  ]) {
    expect([name, nameProblem(name)]).toEqual([name, null]);
  }
  expect(nameProblem('🐢'.repeat(NAME_LENGTH_LIMIT))).toBeNull();
});

test('what is too long or cannot be seen is refused in words', () => {
  expect(nameProblem('x'.repeat(10_000))).toBe('a name has at most 40 characters, this one has 10,000');
  expect(nameProblem('a\u0000b')).toContain('cannot be seen');
  expect(nameProblem('a\u202eb')).toContain('cannot be seen');
  expect(nameProblem('\u200b')).toContain('cannot be seen');
  expect(nameProblem(`a${'\u0335'.repeat(9)}`)).toContain('marks on a letter');
});

test('spaces are one space, and none at the ends', () => {
  expect(tidyName('  Ada \n\t Lovelace ')).toBe('Ada Lovelace');
});
