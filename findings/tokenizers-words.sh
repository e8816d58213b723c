#!/usr/bin/env bash
# What:     the pre-tokenizer Whitespace in @huggingface/tokenizers 0.2.0 (JavaScript) beside tokenizers 0.23.2 (Rust). 2026-11-29.
# Guessed:  words of ordinary French text are words in both.
# Seen:     the JavaScript reader runs the pattern \w+|[^\w\s]+ as ECMAScript does, where \w is ASCII: a word breaks at every
#           accent, and an apostrophe or a comma sticks to an accented letter. No error; 15 pieces become 23.
# Matters:  all languages but English; the ids are valid, only other ones, and nothing tells.
# Instead:  WhitespaceSplit, then Split at [\p{L}\p{M}\p{N}_]+ with behavior Isolated: both read that alike.
source "$(dirname "$0")/common.sh"
enter @huggingface/tokenizers@0.2.0 tokenizers@0.23.2
cat > run.mjs <<'JS'
import { Tokenizer } from '@huggingface/tokenizers';
import native from 'tokenizers';
import { end, say } from './say.mjs';

const text = "L'été, à Noël : 12 œufs. Le garçon a 3 élèves";
const vocab = { '[UNK]': 0 };
for (let from = 0; from < text.length; from++)
  for (let to = from + 1; to <= text.length; to++) vocab[text.slice(from, to)] ??= Object.keys(vocab).length;
const file = {
  version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: { type: 'Whitespace' }, post_processor: null, decoder: null,
  model: { type: 'WordLevel', vocab, unk_token: '[UNK]' },
};
const rust = await native.Tokenizer.fromString(JSON.stringify(file)).encode(text, null, { addSpecialTokens: false });
const seen = new Tokenizer(file, {}).encode(text).tokens;
const stated = "L 'é t é, à No ë l : 12 œ ufs . Le gar ç on a 3 é l è ves".split(' ');
say(`pieces of ${JSON.stringify(text)}`, rust.getTokens(), stated, seen);
say('how many', rust.getTokens().length, stated.length, seen.length);
end();
JS
node run.mjs
