import { expect, test } from 'vitest';
import { endTokens } from './endTokens.ts';
import { NoTokenError } from './tokenizer.ts';

/** Letters are tokens, `</s>` is one. */
const encode = async (text: string): Promise<number[]> => {
  if (text.includes('!')) throw new NoTokenError('!');
  return text === '</s>' ? [2] : [...text].map((letter) => letter.charCodeAt(0));
};
const ends = (files: { config?: object; generation?: unknown; tokenizer?: unknown }) =>
  endTokens(
    { encode },
    {
      ...{ config: files.config ?? {}, vocabulary: 200 },
      generationConfig: files.generation === undefined ? null : JSON.stringify(files.generation),
      tokenizerConfig: files.tokenizer === undefined ? null : JSON.stringify(files.tokenizer),
    },
  );

test('every end that the model’s config, its generation config or the tokenizer’s config names ends a text', async () => {
  expect(await ends({})).toEqual([]);
  expect(await ends({ config: { eos_token_id: 7 } })).toEqual([7]);
  expect(await ends({ config: { eos_token_id: [7, 8] }, generation: { eos_token_id: [8, 9] } })).toEqual([7, 8, 9]);
  expect(await ends({ generation: { eos_token_id: 0 }, tokenizer: { eos_token: '</s>' } })).toEqual([0, 2]);
  expect(await ends({ tokenizer: { eos_token: { content: '</s>', lstrip: false } } })).toEqual([2]);
});

test('what is no token of the model, or no one token, ends nothing; nor does a file of another form', async () => {
  expect(await ends({ config: { eos_token_id: 50_256 } })).toEqual([]);
  expect(await ends({ config: { eos_token_id: null }, tokenizer: { eos_token: null } })).toEqual([]);
  expect(await ends({ tokenizer: { eos_token: 'ab' } })).toEqual([]);
  expect(await ends({ tokenizer: { eos_token: '!' }, generation: [] })).toEqual([]);
  const files = { config: {}, vocabulary: 9, generationConfig: 'no JSON', tokenizerConfig: '[' };
  expect(await endTokens({ encode }, files)).toEqual([]);
});
