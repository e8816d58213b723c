import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Tokenizer } from '@huggingface/tokenizers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Random, seededRandom } from '../../swarm/base.ts';
import { NO_TOKEN, openTokenizer, type TextTokenizer, tokenizerFiles } from './tokenizer.ts';
import { type TokenStreamSizes, tokenStream, UncuttableTextError } from './tokenStream.ts';

let folder = '';
const open: TextTokenizer[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-tokenizer-'));
});
afterEach(() => {
  for (const tokenizer of open.splice(0)) tokenizer.close();
  rmSync(folder, { recursive: true, force: true });
});

const GOLDEN = fileURLToPath(new URL('../../e2e/golden/tokenizer/tokenizer.json', import.meta.url));
const MIXED = readFileSync(new URL('../../e2e/golden/tokenizer/mixed.txt', import.meta.url), 'utf8');
const golden = JSON.parse(readFileSync(GOLDEN, 'utf8'));

/** The library over the whole text at once. */
const whole = (tokenizer: object, text: string): number[] =>
  new Tokenizer(structuredClone(tokenizer), {}).encode(text, { add_special_tokens: false }).ids;

/** Words of many scripts, in sentences, lists, code and runs of space, until there are so many bytes. */
function mixedText(bytes: number, seed: number): string {
  const random = seededRandom(seed);
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const lines = MIXED.split('\n');
  const words = MIXED.split(/\s+/);
  const glue = [
    ' ',
    ' ',
    ' ',
    ' ',
    ', ',
    '. ',
    '\n',
    '  ',
    ' \n',
    '\n\n',
    '\r\n',
    '\t',
    '',
    "'s ",
    '<|endoftext|>',
    '。',
  ];
  const odd = ['12345678', '\u00a0', '\u200b', '👩‍🔬', 'e\u0301', '𝕸𝖆𝖙𝖍', '-----', 'ﬁ', '\u2028', '{}();', 'ÅÅ', '١٢٣'];
  const parts: string[] = [];
  for (let length = 0; length < bytes; ) {
    const kind = random();
    const part = kind < 0.6 ? one(words) + one(glue) : kind < 0.9 ? `${one(lines)}${one(glue)}` : one(odd) + one(glue);
    parts.push(part);
    length += Buffer.byteLength(part);
  }
  return parts.join('');
}

/** The stream's ids, the text handed over in chunks of random lengths. */
async function streamed(
  encode: (text: string) => Promise<number[]>,
  text: string,
  random: Random,
  sizes?: TokenStreamSizes,
): Promise<number[]> {
  const stream = tokenStream(encode, sizes);
  const ids: number[] = [];
  for (let at = 0; at < text.length; ) {
    const next = at + 1 + Math.floor(random() * 40_000);
    for (const id of await stream.add(text.slice(at, next))) ids.push(id);
    at = next;
  }
  return [...ids, ...(await stream.end())];
}

async function opened(json: unknown) {
  const path = join(folder, 'tokenizer.json');
  writeFileSync(path, JSON.stringify(json));
  const tokenizer = await openTokenizer(path);
  if (!tokenizer.ok) throw new Error(tokenizer.reason);
  open.push(tokenizer.value);
  return tokenizer.value;
}

/** Small pieces have many cuts; a context is always longer than a word. */
const SMALL: TokenStreamSizes = { piece: 1_500, context: 512, longest: 100_000 };

describe('[DA6] ids of a text in pieces are those of the whole text', () => {
  test('a byte-level BPE over a megabyte of mixed scripts', async () => {
    const text = mixedText(1_000_000, 1);
    const { encode, decode, ids: count } = await opened(golden);
    const expected = whole(golden, text);
    expect(count).toBe(2_457);
    const ids = await streamed(encode, text, seededRandom(2));
    expect(ids.length).toBe(expected.length);
    expect(ids.findIndex((id, index) => id !== expected[index])).toBe(-1);
    expect(await decode(expected)).toBe(text);
  }, 120_000);

  const LLAMA_3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  const split = { type: 'Split', pattern: { Regex: LLAMA_3 }, behavior: 'Isolated', invert: false };
  const noRegex = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
  const merges = [
    't h',
    'th e',
    '▁ the',
    '▁ a',
    'a n',
    'an d',
    '▁ and',
    'i n',
    '▁ ▁',
    '▁▁ ▁▁',
    'e r',
    'o n',
    'с т',
    'о в',
  ];
  const pieces = [
    '<unk>',
    ...bytes,
    ...'▁abcdefghijklmnopqrstuvwxyzстовеиTA.,',
    ...merges.map((m) => m.replace(' ', '')),
  ];
  const vocab = Object.fromEntries([...new Set(pieces)].map((piece, id) => [piece, id]));
  const sentencePiece = { type: 'BPE', unk_token: '<unk>', fuse_unk: true, byte_fallback: true, vocab, merges };
  const bare = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
  const underscores = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };

  test.each<[string, object, number]>([
    ['split as Llama 3', { ...golden, pre_tokenizer: { type: 'Sequence', pretokenizers: [split, noRegex] } }, 60_000],
    ['normalised by NFC', { ...golden, normalizer: { type: 'NFC' } }, 60_000],
    [
      'a space before the text',
      { ...golden, pre_tokenizer: { ...golden.pre_tokenizer, add_prefix_space: true } },
      60_000,
    ],
    [
      'Llama 2: one word, a space before every text',
      {
        ...bare,
        normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, underscores] },
        model: sentencePiece,
      },
      60_000,
    ],
    [
      'Metaspace',
      { ...bare, pre_tokenizer: { type: 'Metaspace', prepend_scheme: 'first' }, model: sentencePiece },
      60_000,
    ],
    [
      'WordPiece',
      {
        ...bare,
        normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, lowercase: true },
        pre_tokenizer: { type: 'BertPreTokenizer' },
        model: {
          type: 'WordPiece',
          unk_token: '<unk>',
          continuing_subword_prefix: '##',
          vocab: Object.fromEntries(
            [
              '<unk>',
              ...'abcdefghijklmnopqrstuvwxyz',
              ...[...'abcdefghijklmnopqrstuvwxyz'].map((c) => `##${c}`),
              'the',
              '##in',
            ].map((piece, id) => [piece, id]),
          ),
        },
      },
      60_000,
    ],
  ])('%s', async (_, json, size) => {
    const text = mixedText(size, 3);
    const { encode } = await opened(json);
    const ids = await streamed(encode, text, seededRandom(4), SMALL);
    const expected = whole(json, text);
    expect(ids.findIndex((id, index) => id !== expected[index])).toBe(-1);
    expect(ids.length).toBe(expected.length);
  });

  test('texts without words, without spaces, and without an end', async () => {
    const { encode } = await opened(golden);
    for (const text of [
      '',
      'a',
      ' ',
      'a'.repeat(4_000),
      '-'.repeat(4_000),
      '\n'.repeat(4_000),
      '人人生而自由'.repeat(700),
      '👩‍🔬'.repeat(700),
    ])
      expect(await streamed(encode, text, seededRandom(5), SMALL)).toEqual(whole(golden, text));
  });

  test('a text that no tokenizer can be cut in is refused, not kept in memory', async () => {
    const lengths: number[] = [];
    const stream = tokenStream(async (text) => {
      lengths.push(text.length);
      return [text.length]; // every text another token
    }, SMALL);
    await expect(stream.add('a'.repeat(200_000))).rejects.toThrow(UncuttableTextError);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(SMALL.longest);
  });
});

describe('openTokenizer', () => {
  const reason = async (text: string): Promise<string> => {
    writeFileSync(join(folder, 'tokenizer.json'), text);
    const tokenizer = await openTokenizer(join(folder, 'tokenizer.json'));
    if (tokenizer.ok) tokenizer.value.close();
    return tokenizer.ok ? 'accepted' : tokenizer.reason.replaceAll(folder, 'DIR');
  };

  test('what is no tokenizer is refused with the file', async () => {
    expect(await reason(JSON.stringify(golden))).toBe('accepted');
    for (const text of [
      '',
      '{',
      '[]',
      '3',
      'null',
      '{}',
      '{"model": {"type": "BPE"}}',
      JSON.stringify({ ...golden, model: null }),
    ])
      expect(await reason(text)).toMatch(/^DIR\/tokenizer\.json is not a Hugging Face tokenizer\.json/);
    const gone = await openTokenizer(join(folder, 'gone.json'));
    expect(gone.ok ? '' : gone.reason).toContain('there is no such file: a Hugging Face tokenizer.json was expected');
  });

  test('no special token is added; one that stands in the text is found; text without a token is marked', async () => {
    const template = {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<|endoftext|>' } }, { Sequence: { id: 'A' } }],
      pair: [],
      special_tokens: {},
    };
    const adding = await opened({ ...golden, post_processor: template });
    expect(await adding.encode('the')).toEqual(await (await opened(golden)).encode('the'));
    expect(await adding.encode('<|endoftext|>')).toEqual([2_456]);
    expect(await adding.decode([])).toBe('');
    const { '!': _, ...vocab } = golden.model.vocab;
    const lacking = await opened({ ...golden, model: { ...golden.model, vocab, unk_token: '<unknown>' } });
    expect((await lacking.encode('a!')).at(-1)).toBe(NO_TOKEN);
  });

  test('[DA14] a regular expression that never ends is given up in one sentence, and nothing waits for it', async () => {
    const path = join(folder, 'tokenizer.json');
    const split = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false };
    writeFileSync(path, JSON.stringify({ ...golden, pre_tokenizer: split }));
    const tokenizer = await openTokenizer(path, 1_000);
    if (!tokenizer.ok) throw new Error(tokenizer.reason);
    open.push(tokenizer.value);
    expect(await tokenizer.value.encode('baab')).toHaveLength(3);
    const encoding = tokenizer.value.encode(`${'a'.repeat(100)}b`);
    const other = new Promise((resolve) => setImmediate(resolve, 'goes on'));
    expect(await Promise.race([encoding, other])).toBe('goes on');
    await expect(encoding).rejects.toThrow(
      /tokenizer\.json is not .* that can be used: after 1\.0 s a text was not encoded, 50000 characters a second were expected$/,
    );
  });

  test('its files are itself, by its one name, and what stands beside it', async () => {
    for (const name of ['words.json', 'tokenizer_config.json', 'merges.txt', 'run.json', 'corpus.txt'])
      writeFileSync(join(folder, name), '{}');
    const files = await tokenizerFiles(join(folder, 'words.json'));
    expect(files.map(({ name, path }) => [name, path.replace(folder, 'DIR')])).toEqual([
      ['tokenizer.json', 'DIR/words.json'],
      ['tokenizer_config.json', 'DIR/tokenizer_config.json'],
      ['merges.txt', 'DIR/merges.txt'],
    ]);
  });
});
