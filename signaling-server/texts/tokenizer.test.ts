import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Tokenizer } from 'tokenizers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Random, seededRandom } from '../../swarm/base.ts';
import { NoTokenError, openTokenizer, type TextTokenizer, tokenizerFiles } from './tokenizer.ts';
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
const whole = async (tokenizer: object, text: string): Promise<number[]> => {
  const encoding = await Tokenizer.fromString(JSON.stringify(tokenizer)).encode(text, null, {
    addSpecialTokens: false,
  });
  return encoding.getIds();
};

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
    const expected = await whole(golden, text);
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
      {
        ...bare,
        pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first' },
        model: sentencePiece,
      },
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
          max_input_chars_per_word: 100,
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
    const expected = await whole(json, text);
    expect(ids.findIndex((id, index) => id !== expected[index])).toBe(-1);
    expect(ids.length).toBe(expected.length);
  });

  const words = (model: object, rest: object = {}) => ({ ...bare, ...rest, model });
  const letters = [...'abcdefghijklmnopqrstuvwxyzäéößABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?-½'];
  const ids = (list: readonly string[]) => Object.fromEntries([...new Set(list)].map((piece, id) => [piece, id]));
  const lettersModel = { type: 'BPE', unk_token: '<unk>', fuse_unk: false, vocab: ids(['<unk>', '▁', ' ', ...letters, 'er', 'en']), merges: ['e r', 'e n'] }; // biome-ignore format: one line
  const pre = (pre_tokenizer: object) => words(lettersModel, { pre_tokenizer });
  const splitAt = (behavior: string, invert: boolean) =>
    pre({ type: 'Split', pattern: { Regex: '[ ,.]+' }, behavior, invert });
  const unigram = { type: 'Unigram', unk_id: 0, byte_fallback: true, vocab: [['<unk>', 0], ...bytes.map((byte) => [byte, -9]), ...['▁', ...letters].map((c, i) => [c, -4 - i / 100]), ['▁the', -2.5], ['▁a', -3], ['er', -2.75], ['en', -2.9]] }; // biome-ignore format: one line
  const added = (options: object) => ({
    ...golden,
    added_tokens: [
      ...golden.added_tokens,
      { id: 2457, content: 'the', single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...options },
    ],
  }); // biome-ignore format: one line
  const wordList = (text: string) => [...new Set(text.split(/[^\p{L}]+/u))].slice(0, 500);

  test.each<[string, object]>([
    ['Whitespace', pre({ type: 'Whitespace' })],
    ['WhitespaceSplit', pre({ type: 'WhitespaceSplit' })],
    ['Digits', pre({ type: 'Digits', individual_digits: false })],
    ['single Digits, then bytes', { ...golden, pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Digits', individual_digits: true }, golden.pre_tokenizer] } }],
    ...['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'].map((behavior): [string, object] => [`Punctuation, ${behavior}`, pre({ type: 'Punctuation', behavior })]),
    ...['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'].flatMap((behavior): [string, object][] => [[`Split, ${behavior}`, splitAt(behavior, false)], [`Split inverted, ${behavior}`, splitAt(behavior, true)]]),
    ['BertPreTokenizer', pre({ type: 'BertPreTokenizer' })],
    ['CharDelimiterSplit', pre({ type: 'CharDelimiterSplit', delimiter: 'e' })],
    ['UnicodeScripts', pre({ type: 'UnicodeScripts' })],
    ...['always', 'first', 'never'].flatMap((prepend_scheme): [string, object][] => [true, false].map((isSplit) => [`Metaspace ${prepend_scheme}, split ${isSplit}`, pre({ type: 'Metaspace', replacement: '▁', prepend_scheme, split: isSplit })])),
    ['Strip', words(lettersModel, { normalizer: { type: 'Strip', strip_left: true, strip_right: true } })],
    ['Lowercase, accents stripped', words(lettersModel, { normalizer: { type: 'Sequence', normalizers: [{ type: 'NFD' }, { type: 'Lowercase' }, { type: 'StripAccents' }] } })],
    ['an added token that strips the left', added({ lstrip: true })],
    ['an added token that strips the right', added({ rstrip: true })],
    ['an added token of a single word', added({ single_word: true })],
    ['Unigram with bytes', words(unigram, { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' } })],
    ['Unigram without a pre-tokenizer', words(unigram)],
    ['a prefix of what continues a word', words({ ...lettersModel, continuing_subword_prefix: '@@', vocab: ids(['<unk>', ...letters, ...letters.map((c) => `@@${c}`), 'e@@r', 'er']), merges: ['e @@r'] }, { pre_tokenizer: { type: 'WhitespaceSplit' } })],
    ['an end of a word', words({ ...lettersModel, end_of_word_suffix: '</w>', vocab: ids(['<unk>', ...letters, ...letters.map((c) => `${c}</w>`), 'er</w>']), merges: ['e r</w>'] }, { pre_tokenizer: { type: 'WhitespaceSplit' } })],
    ['WordLevel with an unknown token', words({ type: 'WordLevel', unk_token: '[UNK]', vocab: ids(['[UNK]', ...wordList(MIXED)]) }, { pre_tokenizer: { type: 'Whitespace' } })],
    ['byte pairs, merges ignored', { ...golden, model: { ...golden.model, ignore_merges: true } }],
  ])('[DA6] as the library, in pieces too: %s', async (_, json) => {
    const text = `für größe  und ½ l: ${mixedText(40_000, 6)}`;
    const expected = await whole(json, text);
    const { encode } = await opened(json);
    expect(await encode(text)).toEqual(expected);
    const found = await streamed(encode, text, seededRandom(7), SMALL);
    expect(found.findIndex((id, index) => id !== expected[index])).toBe(-1);
    expect(found.length).toBe(expected.length);
  }); // biome-ignore format: a case a line

  test('[DA6] a file’s truncation, padding and dropout are left out', async () => {
    const text = mixedText(20_000, 8);
    const truncation = { direction: 'Right', max_length: 16, strategy: 'LongestFirst', stride: 0 };
    const padding = { strategy: { Fixed: 64 }, direction: 'Right', pad_to_multiple_of: null, pad_id: 0, pad_type_id: 0, pad_token: '!' }; // biome-ignore format: one line
    const { encode } = await opened({ ...golden, truncation, padding, model: { ...golden.model, dropout: 0.5 } });
    expect(await encode('the')).toEqual(await whole(golden, 'the'));
    expect(await encode(text)).toEqual(await whole(golden, text));
  });

  test('[DA6] byte pairs without an unknown token lose no text without a word', async () => {
    const { unk_token: _, ...model } = lettersModel;
    const json = { ...words(model), pre_tokenizer: { type: 'Whitespace' }, normalizer: { type: 'Strip', strip_left: true, strip_right: true } }; // biome-ignore format: one line
    const { encode } = await opened(json);
    expect(await encode(' er  en ')).toEqual(await whole(json, 'er en'));
    await expect(encode('der Fluß 流 fließt')).rejects.toThrow('has "流" that the tokenizer has no token for');
    // Within a word the library's offsets close up behind what it leaves out.
    await expect(encode('der Fl流uß fließt')).rejects.toThrow('has "流" that');
    const bare = await opened(words(model));
    await expect(bare.encode(`${'Fluß '.repeat(50)}流流${'Fluß '.repeat(50)}`)).rejects.toThrow('has "流" that');
    const markers = [{ id: 200, content: '<流>', single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }]; // biome-ignore format: one line
    const marked = { ...words(model), added_tokens: markers };
    expect(await (await opened(marked)).encode('er<流>en')).toEqual(await whole(marked, 'er<流>en'));
    const inBytes = { ...model, byte_fallback: true, vocab: ids([...letters, 'er', 'en', ...bytes.slice(0, 255)]) };
    const falling = await opened({ ...words(inBytes), pre_tokenizer: { type: 'Whitespace' } });
    expect(await falling.encode('流')).toHaveLength(3);
  });

  test('[DA6] blanks that are stripped only where a text begins or ends are kept at every cut', async () => {
    const json = words(lettersModel, { normalizer: { type: 'Strip', strip_left: true, strip_right: true } });
    const { encode } = await opened(json);
    const text = `${'er en '.repeat(300)}${' '.repeat(1_200)}${'er en '.repeat(300)}`;
    expect(await streamed(encode, text, seededRandom(6), SMALL)).toEqual(await whole(json, text));
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
      expect(await streamed(encode, text, seededRandom(5), SMALL)).toEqual(await whole(golden, text));
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
      single: [{ SpecialToken: { id: '<|endoftext|>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
      pair: [],
      special_tokens: { '<|endoftext|>': { id: '<|endoftext|>', ids: [2456], tokens: ['<|endoftext|>'] } },
    };
    const adding = await opened({ ...golden, post_processor: template });
    expect(await adding.encode('the')).toEqual(await (await opened(golden)).encode('the'));
    expect(await adding.encode('<|endoftext|>')).toEqual([2_456]);
    expect(await adding.decode([])).toBe('');
    const model = { type: 'BPE', vocab: { a: 0 }, merges: [], unk_token: '<unknown>' };
    const lacking = await opened({ ...golden, added_tokens: [], pre_tokenizer: null, model });
    await expect(lacking.encode('a!')).rejects.toThrow(NoTokenError);
  });

  test('the token that its post-processor puts before a text is its beginning', async () => {
    const special = { '<|endoftext|>': { id: '<|endoftext|>', ids: [2456], tokens: ['<|endoftext|>'] } };
    const end = { SpecialToken: { id: '<|endoftext|>', type_id: 0 } };
    const text = { Sequence: { id: 'A', type_id: 0 } };
    const with_ = (single: object[]) => {
      const template = { type: 'TemplateProcessing', single, pair: [], special_tokens: special };
      return opened({ ...golden, post_processor: { type: 'Sequence', processors: [golden.post_processor, template] } });
    };
    const beginnings = [
      await opened(golden),
      await with_([end, text]),
      await with_([end, text, end]),
      await with_([text, end]),
    ];
    expect(await Promise.all(beginnings.map((one) => one.beginning()))).toEqual([null, 2_456, 2_456, null]);
  });

  test('a character whose bytes are not all there is left out at the end, and no other', async () => {
    const tokenizer = await opened(golden);
    const text = 'math 𝕸𝖆𝖙𝖍, 👩‍🔬, runes ᚠᛇᚻ᛫ᛒᛦᚦ and more ᚠᛇ';
    const ids = await tokenizer.encode(text);
    let unfinished = 0;
    for (let count = 0; count <= ids.length; count++) {
      const begun = ids.slice(0, count);
      const [finished, decoded] = [await tokenizer.decodeFinished(begun), await tokenizer.decode(begun)];
      expect(text.startsWith(finished)).toBe(true);
      expect([finished, `${finished}\uFFFD`]).toContain(decoded);
      if (decoded !== finished) unfinished++;
    }
    expect(unfinished).toBeGreaterThan(10);
    // GPT-2's letters for the bytes ff, e2 and 82.
    const [wrong, first, second] = ['ÿ', 'â', 'Ĥ'].map((letter) => golden.model.vocab[letter]);
    expect(await tokenizer.decodeFinished([wrong, wrong])).toBe('\uFFFD\uFFFD');
    expect(await tokenizer.decodeFinished([first, wrong, second])).toBe('\uFFFD\uFFFD\uFFFD');
    expect(await tokenizer.decodeFinished([wrong, first, second])).toBe('\uFFFD');
    expect(await tokenizer.decodeFinished([first, first, second])).toBe('\uFFFD');
  });

  test('bytes that a vocabulary falls back on are left out as long as they may become a character', async () => {
    const vocab = { a: 0, '<0xE2>': 1, '<0x82>': 2, '<0xAC>': 3, '<0xFF>': 4 };
    const decoder = { type: 'Sequence', decoders: [{ type: 'ByteFallback' }, { type: 'Fuse' }] };
    const bare = { added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder };
    const tokenizer = await opened({ ...bare, model: { type: 'BPE', vocab, merges: [], byte_fallback: true } });
    const finished = (ids: number[]): Promise<string> => tokenizer.decodeFinished(ids);
    expect(await finished([0, 1, 2, 3])).toBe('a€');
    expect([await finished([0, 1, 2]), await finished([0, 1]), await finished([1, 2, 3, 1])]).toEqual(['a', 'a', '€']);
    expect([await finished([0, 4]), await finished([0, 1, 0])]).toEqual(['a\uFFFD', 'a\uFFFDa']);
  });

  test.each([1, 3, 100])(
    '[DA6] ids are those that the library gives out, whatever id the file says: %i',
    async (id) => {
      const model = { type: 'WordLevel', vocab: { a: 0, b: 1, c: 2 }, unk_token: 'c' };
      const token = {
        content: '<x>',
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
      };
      const bare = { added_tokens: [{ id, ...token }], normalizer: null, pre_tokenizer: null, post_processor: null };
      const tokenizer = await opened({ ...bare, decoder: null, model });
      expect(await tokenizer.encode('<x>')).toEqual([3]);
      expect(tokenizer.ids).toBe(4);
    },
  );

  test('what takes longer than its size is worth is ended in one sentence, and nothing waits for it', async () => {
    const path = join(folder, 'tokenizer.json');
    writeFileSync(path, JSON.stringify(golden));
    const opening = openTokenizer(path, -60_000);
    const other = new Promise((resolve) => setImmediate(resolve, 'goes on'));
    expect(await Promise.race([opening, other])).toBe('goes on');
    expect(await opening).toMatchObject({
      reason: expect.stringMatching(
        /tokenizer\.json is not .* that can be used: after -60\.0 s it was not read, one of its size was expected to be$/,
      ),
    });
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
