import { expect, test } from 'vitest';
import { tokenizerConfig } from './tokenizerConfig.ts';

const TOKENIZER = {
  added_tokens: [
    { id: 0, content: '<unk>', special: true },
    { id: 1, content: '<s>', special: true },
    { id: 2, content: '</s>', special: true },
    { id: 9, content: '    ', special: false },
  ],
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true },
  model: { type: 'BPE', unk_token: '<unk>', vocab: { x: 3 }, merges: [] },
};

interface Given {
  readonly tokenizer?: object;
  readonly given?: object;
  readonly specialTokens?: object;
  readonly model?: Readonly<Record<string, unknown>>;
}
const text = (object?: object): string | null => (object === undefined ? null : JSON.stringify(object));
const config = ({ tokenizer = TOKENIZER, given, specialTokens, model = {} }: Given): unknown =>
  JSON.parse(
    tokenizerConfig({
      ...{ tokenizer: JSON.stringify(tokenizer), given: text(given), specialTokens: text(specialTokens) },
      ...{ model, positions: 64 },
    }),
  );

const ALWAYS = {
  tokenizer_class: 'PreTrainedTokenizerFast',
  clean_up_tokenization_spaces: false,
  model_max_length: 64,
};

test('a lone tokenizer.json gets the class that reads it as it stands, and the special tokens of the model', () => {
  expect(config({ tokenizer: { model: {} } })).toEqual(ALWAYS);
  expect(config({ model: { bos_token_id: 1, eos_token_id: [2, 1] } })).toEqual({
    ...ALWAYS,
    ...{ bos_token: '<s>', eos_token: '</s>', unk_token: '<unk>', add_prefix_space: true },
  });
});

test('a token that is not special in the tokenizer.json does not become one', () => {
  const model = { bos_token_id: 3, eos_token_id: 9, pad_token_id: 77 };
  expect(config({ model })).toEqual({ ...ALWAYS, unk_token: '<unk>', add_prefix_space: true });
});

test('what a file beside it says goes first, but not its class, its spaces or its length', () => {
  const given = {
    ...{ tokenizer_class: 'LlamaTokenizerFast', clean_up_tokenization_spaces: true, model_max_length: 1e30 },
    ...{ bos_token: { content: '<b>' }, eos_token: null, chat_template: '{{ x }}', add_prefix_space: false },
  };
  const specialTokens = { bos_token: '<other>', pad_token: '<p>', additional_special_tokens: ['<i>'] };
  expect(config({ given, specialTokens, model: { bos_token_id: 1, eos_token_id: 2 } })).toEqual({
    ...ALWAYS,
    ...{ bos_token: { content: '<b>' }, eos_token: '</s>', unk_token: '<unk>', pad_token: '<p>' },
    ...{ chat_template: '{{ x }}', add_prefix_space: true },
  });
});
