/** Lines of an answer's picture, with letters that are all one wide. */
import { expect, it } from 'vitest';
import { placedLines } from './picture.ts';

const lines = (words: string, answer: string, width: number, most?: number): string[] =>
  placedLines({ words, answer }, width, ({ length }) => length, most).map((line) =>
    line.map(({ text, isOwn }) => (isOwn ? text.toUpperCase() : text)).join(''),
  );

it('are no wider than they may be, go on from one text to the other, and end where a text ends one', () => {
  expect(lines('a bc', ' def ghi', 9)).toEqual(['A BC def ', 'ghi']);
  expect(lines('a bc', 'd\n\ne', 9)).toEqual(['A BCd', '', 'e']);
});

it('begin with no space but a text’s own, and cut a word that no line holds', () => {
  expect(lines('', 'abc de', 3)).toEqual(['abc', 'de']);
  expect(lines('', 'abcdefgh', 3)).toEqual(['ab', 'cd', 'ef', 'gh']);
});

it('are at most so many, the last of which says that there is more', () => {
  expect(lines('', 'a\nb\nc\nd', 9, 3)).toEqual(['a', 'b', '…']);
  expect(lines('', 'a\nb\nc', 9, 3)).toEqual(['a', 'b', 'c']);
});

it('say where each word begins', () => {
  const [line = []] = placedLines({ words: 'ab', answer: 'c d' }, 9, (text, isOwn) => text.length * (isOwn ? 2 : 1));
  expect(line.map(({ text, x }) => [text, x])).toEqual([
    ['ab', 0],
    ['c', 4],
    [' ', 5],
    ['d', 6],
  ]);
});
