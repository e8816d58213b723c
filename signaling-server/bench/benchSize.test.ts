import { expect, test } from 'vitest';
import { tokensOf } from './benchSize.ts';

test.each<[string, readonly string[]]>([
  ["import { a } from './a.ts';\nimport type {\n  B,\n} from 'b';\nb();\n", ['b', '(', ')', ';']],
  ['/** What it is for. */\nx += 1; // why', ['x', '+=', '1', ';']],
  ["const url = 'http://a'; ", ['const', 'url', '=', "'http://a'", ';']],
  ['say(`one {two()} // no comment`)', ['say', '(', '`one {two()} // no comment`', ')']],
  ['this.#long?.name ??= 1_000.5;', ['this', '.', '#long', '?.', 'name', '??=', '1_000.5', ';']],
  [
    'a === b ? [...c] : (d) => e ** 2',
    ['a', '===', 'b', '?', '[', '...', 'c', ']', ':', '(', 'd', ')', '=>', 'e', '**', '2'],
  ],
  ["'it\\'s' !== \"it's\"", ["'it\\'s'", '!==', '"it\'s"']],
])('tokens of %j', (text, tokens) => {
  expect(tokensOf(text)).toEqual(tokens);
});
