/** Tokens as text: what the pieces are together, and where none of them ends. */
import { expect, test } from 'vitest';
import { below, seededRandom } from '../../swarm/base.ts';
import { addedText } from '../texts/sampleText.ts';
import { BYTES } from '../texts/tokenizer.ts';
import type { AnsweredToken } from './answerer.ts';
import { AnswerText } from './answerText.ts';

async function* told(tokens: readonly number[]): AsyncGenerator<AnsweredToken> {
  for (const [index, token] of tokens.entries()) yield { token, fromStep: 3, toStep: 3 + index, donors: 2 };
}

/** A byte is a token, and 0 ends a text. */
async function written(prompt: string, tokens: readonly number[], stops: readonly string[] = []) {
  const ids = await BYTES.encode(prompt);
  const text = {
    ends: [0],
    added: (given: readonly number[], more: readonly number[]) => addedText(BYTES, given, more),
  };
  const answer = new AnswerText({ text, ids, stops }, told(tokens));
  const pieces: string[] = [];
  for await (const piece of answer.pieces()) pieces.push(piece);
  return { pieces, answer };
}

const bytesOf = (text: string): number[] => [...Buffer.from(text)];

test('a character comes whole, and one that never becomes whole does not', async () => {
  expect((await written('', bytesOf('aé€🐟'))).pieces).toEqual(['a', 'é', '€', '🐟']);
  expect((await written('', bytesOf('a€').slice(0, -1))).pieces).toEqual(['a']);
  expect((await written('', [0xff, 0x61, 0xe2, 0x61])).pieces.join('')).toBe('\uFFFDa\uFFFDa');
  expect((await written('', [0x61, 0xff])).pieces).toEqual(['a', '\uFFFD']);
});

test('a stop string is never shown by half, and ends the text', async () => {
  const { pieces, answer } = await written('', bytesOf('one fish two fish'), [' two', 'fi-fi']);
  expect(pieces.join('|')).toBe('o|n|e| |fis|h');
  expect([answer.finishReason, answer.usage.completion_tokens]).toEqual(['stop', 12]);
  expect((await written('', bytesOf('one tw'), [' two'])).pieces.join('')).toBe('one tw');
  // The prompt's end is no part of it.
  expect((await written('tw', bytesOf('o and two'), ['two'])).pieces.join('')).toBe('o and ');
});

test('an end token ends it and is counted; so far the weights were these', async () => {
  const { pieces, answer } = await written('x', [...bytesOf('ab'), 0, ...bytesOf('cd')]);
  expect([pieces.join(''), answer.finishReason]).toEqual(['ab', 'stop']);
  expect(answer.usage).toEqual({ prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 });
  expect(answer.shoal).toEqual({ fromStep: 3, toStep: 5, donors: 2 });
});

/** By trying: what is left when the last bytes are taken off that make no character, though more might. */
function finishedText(bytes: readonly number[]): string {
  const decoded = (list: readonly number[]): string => Buffer.from(list).toString();
  for (let left = 1; left <= 3; left++) {
    const [head, tail] = [bytes.slice(0, bytes.length - left), bytes.slice(bytes.length - left)];
    const completions = [0x80, 0x90, 0xa0].flatMap((next) =>
      [1, 2, 3].map((count) => [...tail, next, ...Array<number>(count - 1).fill(0x80)]),
    );
    const isBegun = (tail[0] ?? 0) >= 0xc2;
    const becomesOne = completions.some((list) => [...decoded(list)].length === 1 && decoded(list) !== '\uFFFD');
    if (isBegun && becomesOne) return decoded(head);
  }
  return decoded(bytes);
}

test('whatever the bytes and the stop strings, the pieces are the text up to the first of them', async () => {
  const alphabet = [0x61, 0x62, 0x61, 0x62, 0xe2, 0x82, 0xac, 0xf0, 0x90, 0xc3, 0xff, 0x80];
  for (let seed = 1; seed <= 400; seed++) {
    const random = seededRandom(seed);
    const tokens = Array.from({ length: below(random, 24) }, () => alphabet[below(random, alphabet.length)] ?? 0);
    const stops = Array.from({ length: below(random, 3) }, () =>
      Array.from({ length: 1 + below(random, 3) }, () => 'ab€'[below(random, 3)]).join(''),
    );
    const { pieces, answer } = await written('', tokens, stops);
    // It ends as soon as one is there: of the shortest text that has any.
    const texts = tokens.map((_, index) => finishedText(tokens.slice(0, index + 1)));
    const found = texts.find((text) => stops.some((stop) => text.includes(stop)));
    const whole = found ?? texts.at(-1) ?? '';
    const places = stops.map((stop) => whole.indexOf(stop)).filter((place) => place >= 0);
    const expected = whole.slice(0, Math.min(whole.length, ...places));
    expect([seed, pieces.join('')]).toEqual([seed, expected]);
    expect([seed, answer.finishReason]).toEqual([seed, found === undefined ? 'length' : 'stop']);
    for (const piece of pieces) expect([seed, /\p{Surrogate}/u.test(piece)]).toEqual([seed, false]);
  }
});
