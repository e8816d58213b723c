import { expect, test } from 'vitest';
import { parseJson } from './parseJson.ts';

test.each([
  ['', 'it ends in line 1 where a value belongs'],
  ['{"name": ', 'it ends in line 1 where a value belongs'],
  ['{\n  "a": 1,\n  "b": NaN\n}', 'line 3 has NaN where a value belongs'],
  ['{"a": 1\n"b": 2}', 'line 2 has "b" where a comma or } belongs'],
  ['{"a": 1,\n}', 'line 2 has } where a name in quotes belongs'],
  ['[1, 2,\n\n]', 'line 3 has ] where a value belongs'],
  ["{'a': 1}", "line 1 has 'a' where a name in quotes or } belongs"],
  ['{"a" 1}', 'line 1 has 1 where a colon belongs'],
  ['{"a": "two\nlines"}', 'line 1 has "two where a value belongs'],
  ['[01]', 'line 1 has 01 where a value or ] belongs'],
  ['[{}, []]\n{}', 'line 2 has { where nothing more belongs'],
  ['# notes', 'line 1 has # where a value belongs'],
  ['\uFFFD\uFFFD{\0}\0', 'it is not in UTF-8'],
  [`{"a": ${'x'.repeat(99)}`, `line 1 has ${'x'.repeat(29)}… where a value belongs`],
])('what is wrong with %j', (text, words) => {
  expect(() => JSON.parse(text)).toThrow();
  expect(parseJson(text)).toEqual({ ok: false, reason: `is not valid JSON: ${words}` });
});

test('of every beginning of a text that is JSON it says that it ends', () => {
  const text = '{"a": [1, -2.5e3, true, {"b\\"c": null}], "d": {}}';
  for (let end = 0; end < text.length; end++) {
    const read = parseJson(text.slice(0, end));
    expect(read.ok ? '' : read.reason, text.slice(0, end)).toMatch(
      /^is not valid JSON: it ends in line 1 where .* belongs$|: line 1 has ("|-|t|n)\S* where /,
    );
  }
});

test('a byte-order mark before a text is no part of it', () => {
  expect(parseJson('\uFEFF{"a": "\uFEFF"}')).toEqual({ ok: true, value: { a: '\uFEFF' } });
  expect(parseJson('\uFEFF\uFEFF1').ok).toBe(false);
});
