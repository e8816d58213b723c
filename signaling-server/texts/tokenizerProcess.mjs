/**
 * Hugging Face's own tokenizers library in a process of its own: it is native code, which no thread can be ended in, and
 * a tokenizer.json can be made so that it never comes to an end. A second thread watches the process and kills it past
 * the processor time of a call, past its memory, or when its parent is gone. Plain JavaScript: a process starts from a
 * file, and the sources are run in tests as they are.
 */
import { writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker, workerData } from 'node:worker_threads';

const LOOK_MS = 20;
const MOST_RSS_BYTES = 2 * 2 ** 30;

const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

if (isMainThread) serve();
else watch(new Float64Array(workerData));

/** `end`: processor time of this process past which it is killed. The parent reads the word on standard error. */
function watch(end) {
  const { ppid } = process;
  const kill = (word) => {
    writeSync(2, word);
    process.kill(process.pid, 'SIGKILL');
  };
  setInterval(() => {
    if (process.ppid !== ppid) kill('orphan');
    if (cpuMs() > end[0]) kill('late');
    if (process.memoryUsage.rss() > MOST_RSS_BYTES) kill('memory');
  }, LOOK_MS);
}

async function serve() {
  const shared = new SharedArrayBuffer(8);
  const end = new Float64Array(shared);
  end[0] = Number.POSITIVE_INFINITY;
  const watchdog = new Worker(fileURLToPath(import.meta.url), { workerData: shared });
  await new Promise((resolve) => watchdog.once('online', resolve));
  process.on('disconnect', () => process.exit());
  process.on('message', async ({ call, argument, allowedMs }) => {
    const start = cpuMs();
    end[0] = start + allowedMs;
    const answer = await calls[call](argument).catch((error) => ({ fault: error?.message ?? String(error) }));
    end[0] = Number.POSITIVE_INFINITY;
    const spentMs = cpuMs() - start;
    // The same for a call that came to its end before the watch looked.
    process.send({ ...(spentMs > allowedMs ? { fault: 'late' } : answer), spentMs });
  });
  process.send('ready');
}

let tokenizer;
/** Text that the model has no token for vanishes without a word; null: it cannot. */
let lostIn = null;
/** The types of its decoder, which may be a sequence. */
let decoders = [];

const calls = {
  /** Ids go from 0 to below the answer. */
  async open(bytes) {
    let text = new TextDecoder().decode(bytes);
    const file = JSON.parse(text);
    // Else a token's place leaves out the spaces at its ends. In a string of the file the quotes would be escaped.
    text = text.replaceAll(/("trim_offsets"\s*:\s*)true/g, '$1false');
    // A step's tokens are the same each time.
    if (file?.model?.dropout) text = JSON.stringify({ ...JSON.parse(text), model: { ...file.model, dropout: null } });
    checkUnknown(file?.model);
    const library = await import('tokenizers').catch((error) => {
      throw new Error(`the library tokenizers does not load on this machine: ${error.message}`);
    });
    tokenizer = library.Tokenizer.fromString(text);
    tokenizer.disableTruncation();
    tokenizer.disablePadding();
    lostIn = lossOf(file, library.byteLevelAlphabet());
    decoders = parts(file.decoder).map((one) => one?.type);
    // The file's ids of added tokens are not asked: the library gives those that the model lacks the next ones.
    let ids = 0;
    for (const id of Object.values(tokenizer.getVocab(true))) ids = Math.max(ids, id + 1);
    return { value: ids };
  },

  encode: async ({ texts, withPlaces }) => ({
    value: await Promise.all(texts.map((text) => encoded(text, withPlaces))),
  }),

  /** A token by its text; null: there is none. */
  idOf: async (text) => ({ value: tokenizer.tokenToId(text) }),

  decode: async (ids) => ({ value: await tokenizer.decode(Array.from(ids), false) }),

  /** Byte tokens that are no UTF-8 together are decoded one by one: the last ones, which may become some, are left out whole. */
  async decodeFinished(ids) {
    const whole = await tokenizer.decode(Array.from(ids), false);
    if (!whole.endsWith('\uFFFD')) return { value: whole };
    const last = Array.from(ids).slice(-LONGEST_CHARACTER);
    if (decoders.includes('ByteLevel')) {
      const bytes = last.flatMap((id) => levelBytes(tokenizer.idToToken(id) ?? ''));
      return { value: isUnfinished(bytes) ? whole.slice(0, -1) : whole };
    }
    const bytes = last.map((id) => /^<0x([0-9A-F]{2})>$/.exec(tokenizer.idToToken(id) ?? '')?.[1]);
    const run = bytes.slice(bytes.lastIndexOf(undefined) + 1).map((digits) => Number.parseInt(digits, 16));
    const left = [1, 2, 3].find((count) => count <= run.length && isUnfinished(run.slice(-count)));
    if (!decoders.includes('ByteFallback') || left === undefined) return { value: whole };
    return { value: await tokenizer.decode(Array.from(ids).slice(0, -left), false) };
  },

  async beginning() {
    const [plain, added] = [false, true].map((addSpecialTokens) => tokenizer.encode('a', null, { addSpecialTokens }));
    const [ids, all] = [(await plain).getIds(), (await added).getIds()];
    const isBefore = ids.length > 0 && all.length > ids.length && ids.every((id, index) => id === all[index + 1]);
    return { value: isBefore ? all[0] : null };
  },
};

/**
 * The ids of a text, and where each token stands in it: code points from and to, token by token. Where a model has no token
 * for a text and cannot say so by an unknown one, the library throws, or leaves it out.
 */
async function encoded(text, withPlaces) {
  let encoding;
  try {
    encoding = await tokenizer.encode(text, null, { addSpecialTokens: false });
  } catch (error) {
    if (!/unk/i.test(error.message)) throw error;
    return { lost: '' };
  }
  const lost = lostIn?.(text) ?? null;
  if (lost !== null) return { lost };
  const places = withPlaces ? encoding.getOffsets().flat() : [];
  return { ids: Int32Array.from(encoding.getIds()), places: Int32Array.from(places) };
}

/** Bytes of UTF-8. */
const LONGEST_CHARACTER = 4;

/** More bytes may make a character of the last ones. */
function isUnfinished(bytes) {
  const text = (options) => new TextDecoder().decode(Uint8Array.from(bytes), options);
  return text({ stream: true }).length < text({}).length;
}

/** As the library's ByteLevel decoder reads a token: each letter is a byte, unless one of them stands for none. */
function levelBytes(token) {
  const bytes = [...token].map((letter) => BYTE_OF_LETTER.get(letter));
  return bytes.includes(undefined) ? [...Buffer.from(token)] : bytes;
}

/** GPT-2's letters for bytes: itself where that can be seen, else one from U+0100 on. */
const BYTE_OF_LETTER = new Map();
for (let byte = 0, unseen = 0; byte < 256; byte++) {
  const isSeen = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  BYTE_OF_LETTER.set(String.fromCodePoint(isSeen ? byte : 256 + unseen++), byte);
}

/** The library's own word for it is "UnkIdNotInVocabulary". */
function checkUnknown(model) {
  if (model?.type !== 'Unigram' || !Array.isArray(model.vocab)) return;
  const { unk_id: id = null, vocab } = model;
  if (id === null || (Number.isInteger(id) && id >= 0 && id < vocab.length)) return;
  throw new Error(
    `its model.unk_id is ${JSON.stringify(id)}, but its model.vocab has ${vocab.length} tokens: a number from 0 to ${vocab.length - 1} was expected`,
  );
}

/** Of a pre-tokenizer, a normalizer or a decoder that may be a sequence of them. */
const parts = (one) => [one, ...(one?.pretokenizers ?? one?.normalizers ?? one?.decoders ?? []).flatMap(parts)];

/**
 * Byte pairs without an unknown token leave out a character that is not in the vocabulary, and whose bytes may not stand for
 * it. The library's offsets do not tell where, since within a word those behind it move up: the words are looked at, as its
 * own normalizer and pre-tokenizer make them. Answers what is lost of a text, or null.
 */
function lossOf({ model, pre_tokenizer, normalizer: normalizers, added_tokens }, byteAlphabet) {
  if ((model?.type ?? 'BPE') !== 'BPE' || typeof model?.unk_token === 'string') return null;
  const { vocab, continuing_subword_prefix, end_of_word_suffix, byte_fallback, ignore_merges } = model;
  const has = (token) => Object.hasOwn(vocab, token);
  const isOfBytes = [...parts(pre_tokenizer), ...parts(normalizers)].some((one) => one?.type === 'ByteLevel');
  if (isOfBytes && byteAlphabet.every(has)) return null;
  const byteToken = (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
  const canBeBytes = (bytes) => byte_fallback === true && bytes.every((byte) => has(byteToken(byte)));
  if (canBeBytes(Array.from({ length: 256 }, (_, byte) => byte))) return null;
  const [prefixes, suffixes] = [continuing_subword_prefix, end_of_word_suffix].map((text) => ['', text ?? '']);
  const isKnown = (character) =>
    prefixes.some((prefix) => suffixes.some((suffix) => has(`${prefix}${character}${suffix}`))) ||
    canBeBytes([...Buffer.from(character)]);
  const normalizer = tokenizer.getNormalizer();
  const preTokenizer = tokenizer.getPreTokenizer();
  const added = addedPattern(added_tokens ?? []);
  const between = (text) => (added === null ? [text] : text.split(added));
  return (text) => {
    for (const given of between(text)) {
      if (given === '') continue;
      const normal = normalizer === null ? given : normalizer.normalizeString(given);
      for (const own of between(normal)) {
        const words = preTokenizer === null ? [own] : preTokenizer.preTokenizeString(own).map(([word]) => word);
        const unlisted = ignore_merges ? words.filter((word) => !has(word)) : words;
        for (const character of new Set(unlisted.join(''))) if (!isKnown(character)) return character;
      }
    }
    return null;
  };
}

/** The library takes added tokens out of a text before all else, and some of the normalized one. Null: there are none. */
function addedPattern(tokens) {
  const named = tokens.filter((token) => typeof token?.content === 'string' && token.content !== '');
  const one = ({ content, lstrip, rstrip }) =>
    `${lstrip ? '\\s*' : ''}${content.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')}${rstrip ? '\\s*' : ''}`;
  const longest = named.toSorted((a, b) => b.content.length - a.content.length);
  return named.length === 0 ? null : new RegExp(longest.map(one).join('|'), 'u');
}
