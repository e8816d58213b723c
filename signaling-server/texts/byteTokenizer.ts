/**
 * A tokenizer.json whose ids are the bytes of a text, so that a model of bytes loads like any other. Each byte is written
 * as GPT-2's letter for it: itself where that can be seen, else one from U+0100 on.
 */
const BYTES = 256;

/** GPT-2's bytes_to_unicode, in the order of the bytes. */
export function letters(): string[] {
  const isSeen = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let unseen = 0;
  return Array.from({ length: BYTES }, (_, byte) => String.fromCodePoint(isSeen(byte) ? byte : BYTES + unseen++));
}

/** Of a model that has fewer ids than there are bytes, those. */
export function byteTokenizer(vocabulary: number): string {
  const known = letters().slice(0, vocabulary);
  const vocab = Object.fromEntries(known.map((letter, byte) => [letter, byte]));
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  return JSON.stringify({
    ...{ version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null },
    ...{ pre_tokenizer: byteLevel, post_processor: null, decoder: byteLevel },
    model: {
      ...{ type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null },
      ...{ fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab, merges: [] },
    },
  });
}
