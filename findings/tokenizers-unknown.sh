#!/usr/bin/env bash
# What:     what no vocabulary knows, in @huggingface/tokenizers 0.2.0 (JavaScript) and tokenizers 0.23.2 (Rust). 2026-11-29.
# Guessed:  WordLevel answers with its unknown token in both; BPE without an unknown token refuses or drops the letter in both,
#           and what stands left and right of a dropped letter stays apart.
# Seen:     JavaScript: WordLevel names the token [UNK] but its id is undefined. BPE without an unknown token drops the letter
#           in both; Rust then merges the neighbours across the gap ("aXb" is the token "ab"), JavaScript does not.
# Matters:  undefined becomes 0 in a Uint32Array, so unknown words silently train the token 0; and text is lost with no error.
# Instead:  look for undefined ids; give every BPE an unknown token or bytes as its alphabet.
source "$(dirname "$0")/common.sh"
enter @huggingface/tokenizers@0.2.0 tokenizers@0.23.2
cat > run.mjs <<'JS'
import { Tokenizer } from '@huggingface/tokenizers';
import native from 'tokenizers';
import { end, say } from './say.mjs';

const around = (model) => ({
  version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: { type: 'WhitespaceSplit' }, post_processor: null, decoder: null, model,
});
const rust = async (file, text) =>
  (await native.Tokenizer.fromString(JSON.stringify(file)).encode(text, null, { addSpecialTokens: false })).getIds();
const javascript = (file, text) => new Tokenizer(file, {}).encode(text).ids;

const words = around({ type: 'WordLevel', vocab: { hi: 0, '[UNK]': 1 }, unk_token: '[UNK]' });
say('WordLevel, Rust: ids of "hi there"', [0, 1], [0, 1], await rust(words, 'hi there'));
const ids = javascript(words, 'hi there');
say('WordLevel, JavaScript: ids of "hi there"', '0,1', '0,undefined', ids.map(String).join());
say('the same as a Uint32Array', '0,1', '0,0', Uint32Array.from(ids).join());
const pairs = around({
  type: 'BPE', vocab: { a: 0, b: 1, ab: 2 }, merges: [['a', 'b']], unk_token: null, dropout: null,
  continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false,
});
say('BPE (a 0, b 1, ab 2), Rust: ids of "aXb"', [0, 1], [2], await rust(pairs, 'aXb'));
say('BPE (a 0, b 1, ab 2), JavaScript: ids of "aXb"', [0, 1], [0, 1], javascript(pairs, 'aXb'));
end();
JS
node run.mjs
