/**
 * Trains the byte-level BPE in tokenizer.json from the texts beside it: `node train.mjs`. Words are counted once; each
 * round merges the pair of neighbours that stands in most places (among equals the first by its text).
 */
import { readFileSync, writeFileSync } from 'node:fs';

const MERGES = 2_200;
const SPECIAL = '<|endoftext|>';
const TEXTS = ['mixed.txt', 'mixed.txt', 'mixed.txt', '../gpt2-tiny/corpus.txt'];
/** GPT-2's. */
const WORDS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

/** Every byte as a character that can be seen: most stand for themselves, the others follow from 256 on. */
const isSeen = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
let hidden = 256;
const characters = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isSeen(byte) ? byte : hidden++));

const here = (name) => new URL(name, import.meta.url);
const counts = new Map();
for (const name of TEXTS)
  for (const [word] of readFileSync(here(name), 'utf8').matchAll(WORDS)) {
    const symbols = Array.from(new TextEncoder().encode(word), (byte) => characters[byte]).join(' ');
    counts.set(symbols, (counts.get(symbols) ?? 0) + 1);
  }
const words = [...counts].map(([symbols, count]) => ({ symbols: symbols.split(' '), count }));

const merges = [];
while (merges.length < MERGES) {
  const pairs = new Map();
  for (const { symbols, count } of words)
    for (let i = 1; i < symbols.length; i++) {
      const pair = `${symbols[i - 1]} ${symbols[i]}`;
      pairs.set(pair, (pairs.get(pair) ?? 0) + count);
    }
  const [best] = [...pairs].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  if (!best || best[1] < 2) break;
  const [left, right] = best[0].split(' ');
  merges.push([left, right]);
  for (const word of words) {
    if (!word.symbols.includes(left)) continue;
    const joined = [];
    for (const symbol of word.symbols) {
      if (symbol === right && joined.at(-1) === left) joined[joined.length - 1] = { pair: left + right };
      else joined.push(symbol);
    }
    word.symbols = joined.map((symbol) => symbol.pair ?? symbol);
  }
}

const tokens = [...new Set([...characters, ...merges.map((pair) => pair.join('')), SPECIAL])];
const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
const special = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
const tokenizer = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [{ id: tokens.indexOf(SPECIAL), content: SPECIAL, ...special }],
  normalizer: null,
  pre_tokenizer: byteLevel,
  post_processor: byteLevel,
  decoder: byteLevel,
  model: {
    type: 'BPE',
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    merges: merges.map((pair) => pair.join(' ')),
  },
};
writeFileSync(here('tokenizer.json'), JSON.stringify(tokenizer));
process.stdout.write(`${tokens.length} tokens\n`);
