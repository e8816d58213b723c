import { expect, test } from 'vitest';
import { lookOf, NAME_LENGTH_LIMIT, nameProblem, tidyName } from './publicName.ts';

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

test('names that nobody could tell apart look the same; others do not', () => {
  const alike = ['Móby', 'Rnoby', 'Moby.', 'ᴍoby', 'M0BY', 'МОВУ', ' m o-b_y ', 'Ｍoby', 'M\u00f6by', 'moby·', 'Mòby!'];
  for (const name of alike) expect([name, lookOf(name)]).toEqual([name, lookOf('Moby')]);
  for (const [one, other] of [
    ['Ilse', 'llse'],
    ['William', 'Vvilliarn'],
  ] as const)
    expect(lookOf(one)).toBe(lookOf(other));
  const others = [
    'Moby',
    'Toby',
    'Mobby',
    'Moby 2',
    '李雷',
    '李蕾',
    '🐢',
    '🐙',
    '...',
    '!!',
    'கா',
    'கி',
    'かき',
    'がき',
  ];
  expect(new Set(others.map(lookOf)).size).toBe(others.length);
});
