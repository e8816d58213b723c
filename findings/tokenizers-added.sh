#!/usr/bin/env bash
# What:     the ids that a tokenizer.json states for its added tokens, in tokenizers 0.23.2 (Rust) and @huggingface/tokenizers
#           0.2.0 (JavaScript), and a token named __proto__. 2026-11-29.
# Guessed:  an added token has the id that the file states, in both; getVocab lists as many tokens as getVocabSize counts.
# Seen:     Rust numbers added tokens on from the model's last id, whatever the file states (10 and 20 become 3 and 4, and id 10
#           is the text of nothing); JavaScript obeys the file. getVocab, a plain object, leaves __proto__ out.
# Matters:  a vocabulary with gaps, as padding or removed tokens leave them, gets ids that the model's table has for other
#           tokens, without an error; the same file gives two sequences in two libraries of one publisher.
# Instead:  compare the ids stated in added_tokens with tokenToId at once, and refuse where they differ.
source "$(dirname "$0")/common.sh"
enter @huggingface/tokenizers@0.2.0 tokenizers@0.23.2
cat > run.mjs <<'JS'
import { Tokenizer } from '@huggingface/tokenizers';
import native from 'tokenizers';
import { end, say } from './say.mjs';

const added = (id, content) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
});
const file = {
  version: '1.0', truncation: null, padding: null, added_tokens: [added(10, '<a>'), added(20, '<b>')], normalizer: null,
  pre_tokenizer: { type: 'WhitespaceSplit' }, post_processor: null, decoder: null,
  model: { type: 'WordLevel', vocab: { hi: 0, '[UNK]': 1, ['__proto__']: 2 }, unk_token: '[UNK]' },
};
const rust = await native.Tokenizer.fromString(JSON.stringify(file));
const ids = async (text) => (await rust.encode(text, null, { addSpecialTokens: false })).getIds();
say('Rust: ids of "hi <a> <b>"', [0, 10, 20], [0, 3, 4], await ids('hi <a> <b>'));
say('JavaScript: ids of "hi <a> <b>"', [0, 10, 20], [0, 10, 20], new Tokenizer(file, {}).encode('hi <a> <b>').ids);
say('Rust: ids of "__proto__"', [2], [2], await ids('__proto__'));
say('Rust: tokens of the vocabulary', 5, 4, Object.keys(rust.getVocab()).length);
say('Rust: size of the vocabulary', 5, 5, rust.getVocabSize());
say('Rust: id 10 as text', '<a>', '', String(await rust.decode([10], false)));
end();
JS
node run.mjs
