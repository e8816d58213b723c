#!/usr/bin/env bash
# What:     pre-tokenizers' fields in @huggingface/tokenizers 0.2.0 (JavaScript) beside tokenizers 0.23.2 (Rust). 2026-11-29.
# Guessed:  one tokenizer.json, one answer: `behavior` and `invert` of Split and Punctuation and `split` of Metaspace count.
# Seen:     the JavaScript reader leaves them out, without a word. Split with `invert` drops all text between the matches; a
#           Split at a plain string ignores every behavior and keeps what Removed should remove; MergedWithPrevious and
#           MergedWithNext act as Isolated; Punctuation is always Isolated; Metaspace never splits.
# Matters:  a page that tokenizes in JavaScript trains on, or asks a model with, other ids than the model was made with.
# Instead:  compare ids with the Rust reader once for each tokenizer.json, or refuse the fields that the page's reader ignores.
source "$(dirname "$0")/common.sh"
enter @huggingface/tokenizers@0.2.0 tokenizers@0.23.2
cat > run.mjs <<'JS'
import { Tokenizer } from '@huggingface/tokenizers';
import native from 'tokenizers';
import { end, say } from './say.mjs';

const text = 'one, two';
const vocab = { '[UNK]': 0 };
const shown = text + '▁one,▁two';
for (let from = 0; from < shown.length; from++)
  for (let to = from + 1; to <= shown.length; to++) vocab[shown.slice(from, to)] ??= Object.keys(vocab).length;

async function compare(name, pre_tokenizer, stated) {
  const file = {
    version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer,
    post_processor: null, decoder: null, model: { type: 'WordLevel', vocab, unk_token: '[UNK]' },
  };
  const rust = await native.Tokenizer.fromString(JSON.stringify(file)).encode(text, null, { addSpecialTokens: false });
  say(`${name} of ${JSON.stringify(text)}`, rust.getTokens(), stated, new Tokenizer(file, {}).encode(text).tokens);
}
const letters = { Regex: '\\p{L}+' };
const split = (pattern, behavior, invert) => ({ type: 'Split', pattern, behavior, invert });
await compare('Split at letters, Isolated, invert', split(letters, 'Isolated', true), ['one', 'two']);
await compare('Split at letters, MergedWithNext', split(letters, 'MergedWithNext', false), ['one', ', ', 'two']);
await compare('Split at " ", Removed', split({ String: ' ' }, 'Removed', false), ['one,', ' ', 'two']);
await compare('Punctuation, Removed', { type: 'Punctuation', behavior: 'Removed' }, ['one', ',', ' two']);
const metaspace = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true };
await compare('Metaspace, split', metaspace, ['▁one,▁two']);
end();
JS
node run.mjs
