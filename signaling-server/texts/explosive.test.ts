/** Which patterns of a tokenizer.json are let in: those of well-known tokenizers are, the textbook's explosions are not. */
import { expect, test } from 'vitest';
import { explosivePattern, mayExplode } from './explosive.ts';

test('[DA14] patterns that may take for ever are told by their form', () => {
  for (const pattern of ['(a+)+$', '(a*)*', '(?:a|a)*b', '((a{2,})b?)+', '(x(y+)z)*', '(\\w+\\s?)+$', '(a|b){3,}'])
    expect([pattern, mayExplode(pattern)]).toEqual([pattern, true]);
  const wellKnown = [
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{M}]*[\\p{Ll}\\p{M}]+(?i:'s|'t)?|\\p{N}{1,3}",
    ' {2,}',
    '(?:\\r?\\n)+',
    '[(a+)+]',
    '\\(a+\\)+',
  ];
  for (const pattern of wellKnown) expect([pattern, mayExplode(pattern)]).toEqual([pattern, false]);
});

test('[DA14] they are found wherever they stand in the file, however deep', () => {
  const split = (regex: string) => ({ type: 'Split', pattern: { Regex: regex } });
  const file = (regex: string) => ({
    model: { vocab: { Regex: 1 } },
    pre_tokenizer: { pretokenizers: [split(regex)] },
  });
  expect(explosivePattern(file('(a+)+$'))).toBe('(a+)+$');
  expect(explosivePattern(file('a+'))).toBeNull();
  let deep: unknown = split('(a+)+');
  for (let i = 0; i < 100_000; i++) deep = [deep];
  expect(explosivePattern(deep)).toBe('(a+)+');
});
