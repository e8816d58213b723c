/**
 * A Hugging Face tokenizer.json: text to token ids and back, by Hugging Face's own library in a process of its own. No
 * special tokens are added; those that stand in the text itself are found, as the library finds them. The file's
 * truncation, padding and dropout are left out. The file is not believed: what takes longer than its bytes, or the text's,
 * can need is ended, and what the library does to its process is its own affair.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { at, invariant, type Result, refusal, success } from '../../swarm/base.ts';
import { fileBytes, readFault } from '../files/namedFile.ts';
import { SOURCES_FOLDER } from '../files/projectRoot.ts';
import { SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE } from './tokenizerConfig.ts';

/** Text without a token: the tokenizer has neither bytes nor an unknown token to fall back on. */
export class NoTokenError extends Error {
  /** The part that has none; null: the library does not say which. */
  readonly text: string | null;
  constructor(text: string | null) {
    super(`has ${text === null ? 'text' : JSON.stringify(text.slice(0, 40))} that the tokenizer has no token for`);
    this.text = text;
  }
}

/** A text's tokens, and where each stands in it: code points from and to, token by token. */
export interface PlacedTokens {
  readonly ids: Int32Array;
  readonly places: Int32Array;
}

/** Its calls are made one after another; each throws a `TokenizerFault` where it comes to no answer. */
export interface TextTokenizer {
  /** Ids go from 0 to below this. */
  readonly ids: number;
  /** Throws a `NoTokenError` where a part of the text has none. */
  encode(text: string): Promise<number[]>;
  /** Of each text; an error in place of one that has a part without a token. */
  encodeAll(texts: readonly string[]): Promise<(PlacedTokens | NoTokenError)[]>;
  /** The token that is written so; null: there is none. */
  idOf(text: string): Promise<number | null>;
  /** Bytes that are no UTF-8 become U+FFFD. */
  decode(ids: readonly number[]): Promise<string>;
  /** The same without a character at the end of which more bytes may come. */
  decodeFinished(ids: readonly number[]): Promise<string>;
  /** The token that its post-processor puts before a text; null: none. */
  beginning(): Promise<number | null>;
  close(): void;
}

/** One byte a token. */
export const BYTES: TextTokenizer = {
  ids: 256,
  encode: async (text) => [...Buffer.from(text, 'utf8')],
  encodeAll: async (texts) => texts.map(placedBytes),
  idOf: async () => null,
  decode: async (ids) => bytesOf(ids).toString('utf8'),
  decodeFinished: async (ids) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytesOf(ids), { stream: true }),
  beginning: async () => null,
  close: () => {},
};

function placedBytes(text: string): PlacedTokens {
  const ids = Int32Array.from(Buffer.from(text, 'utf8'));
  const places = new Int32Array(2 * ids.length);
  let character = -1;
  for (const [index, byte] of ids.entries()) {
    if ((byte & 0xc0) !== 0x80) character++; // it begins one
    places.set([character, character + 1], 2 * index);
  }
  return { ids, places };
}

const bytesOf = (ids: readonly number[]): Buffer => Buffer.from(ids.filter((id) => id < 256));

/** Its message begins with the path of the tokenizer.json. */
export class TokenizerFault extends Error {}

/** The largest that is in use has 33 MB. */
const TOKENIZER_LIMIT_BYTES = 40 * 2 ** 20;
/** By the process itself, as it is killed (tokenizerProcess.mjs). */
const LATE = 'late';
const LAST_WORDS_LENGTH = 1_000;
const PROCESS_FILE = join(SOURCES_FOLDER, 'texts', 'tokenizerProcess.mjs');
/** Of the processor's time that a call may take, at most: a process that stands still is no busy machine. */
const WAIT_FACTOR = 20;
const WAIT_MS = 60_000;
/** Whatever the size; beside it what an honest file or text needs several times over on a slow machine. */
const LEAST_MS = 2_500;
const FILE_BYTES_PER_MS = 1_500;
const CHARACTERS_PER_MS = 50;
/** What a token that is decoded may cost beside its characters. */
const TOKENS_PER_MS = 10;

export const TOKENIZER_FILE = 'tokenizer.json';
/** What `transformers` writes and reads beside a tokenizer.json. */
const COMPANIONS = [
  TOKENIZER_CONFIG_FILE,
  SPECIAL_TOKENS_FILE,
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'tokenizer.model',
  'chat_template.jinja',
];

/** Reasons begin with the path. The caller closes it. `leastMs`: what reading it and each text may take, whatever their sizes. */
export async function openTokenizer(path: string, leastMs = LEAST_MS): Promise<Result<TextTokenizer>> {
  let bytes: Uint8Array;
  try {
    const size = await fileBytes(path);
    if (size > TOKENIZER_LIMIT_BYTES)
      return refusal(`${path} has ${size} bytes: a tokenizer.json of at most ${TOKENIZER_LIMIT_BYTES} was expected`);
    bytes = await readFile(path);
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: a Hugging Face tokenizer.json was expected`);
  }
  const child = new TokenizerProcess(path, leastMs);
  try {
    const ids = await child.call('open', bytes, bytes.length / FILE_BYTES_PER_MS, z.int());
    if (ids > 0) return success(tokenizerOf(child, ids));
    child.close();
    return refusal(`${path} is not a Hugging Face tokenizer.json: it has no tokens`);
  } catch (error) {
    child.close();
    if (error instanceof TokenizerFault) return refusal(error.message);
    throw error;
  }
}

const encodedSchema = z.array(
  z.union([
    z.object({ ids: z.instanceof(Int32Array), places: z.instanceof(Int32Array) }),
    z.object({ lost: z.string() }),
  ]),
);

function tokenizerOf(child: TokenizerProcess, ids: number): TextTokenizer {
  const decode = async (call: 'decode' | 'decodeFinished', list: readonly number[]): Promise<string> => {
    // A model's vocabulary may be larger: its other ids stand for nothing.
    const known = list.filter((id) => id < ids);
    if (known.length === 0) return '';
    return child.call(call, known, known.length / TOKENS_PER_MS, z.string());
  };
  const encode = async (texts: readonly string[], withPlaces: boolean): Promise<(PlacedTokens | NoTokenError)[]> => {
    const characters = texts.reduce((sum, { length }) => sum + length, 0);
    const found = await child.call('encode', { texts, withPlaces }, characters / CHARACTERS_PER_MS, encodedSchema);
    return found.map((one) => ('lost' in one ? new NoTokenError(one.lost === '' ? null : one.lost) : one));
  };
  return {
    ids,
    async encode(text) {
      const found = at(await encode([text], false), 0);
      if (found instanceof NoTokenError) throw found;
      return Array.from(found.ids);
    },
    encodeAll: (texts) => encode(texts, true),
    idOf: (text) => child.call('idOf', text, 0, z.int().nullable()),
    decode: (list) => decode('decode', list),
    decodeFinished: (list) => decode('decodeFinished', list),
    beginning: () => child.call('beginning', null, 0, z.int().nullable()),
    close: () => child.close(),
  };
}

const answerSchema = z.union([
  z.object({ value: z.unknown(), spentMs: z.number() }),
  z.object({ fault: z.string(), spentMs: z.number() }),
]);
type Call = 'open' | 'encode' | 'idOf' | 'decode' | 'decodeFinished' | 'beginning';
type Answer = { readonly value?: unknown; readonly spentMs: number } | { readonly fault: string };

/**
 * Who takes long is allowed less the next time: over many calls as much as their sizes are worth, and `leastMs` once.
 */
class TokenizerProcess {
  readonly #path: string;
  readonly #child: ChildProcess = fork(PROCESS_FILE, {
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  readonly #ready: Promise<unknown>;
  readonly #leastMs: number;
  #allowedMs: number;
  #answer: ((answer: Answer) => void) | null = null;
  /** Why it killed itself, or what its library said last. */
  #lastWords = '';
  #end: string | null = null;

  constructor(path: string, leastMs: number) {
    this.#path = path;
    this.#leastMs = leastMs;
    this.#allowedMs = leastMs;
    // The timer of a call keeps this process alive.
    this.#child.unref();
    this.#child.channel?.unref();
    this.#child.stderr?.on('data', (data) => {
      this.#lastWords = `${this.#lastWords}${data}`.slice(-LAST_WORDS_LENGTH);
    });
    let ready = (): void => {};
    this.#ready = new Promise<void>((resolve) => {
      ready = resolve;
    });
    this.#child.on('message', (message) => {
      if (message === 'ready') ready();
      else this.#answer?.(answerSchema.parse(message));
    });
    const ended = (why: string): void => {
      this.#end ??= why;
      ready();
      this.#answer?.({ fault: this.#end });
    };
    this.#child.on('error', ({ message }) => ended(message));
    this.#child.on('close', (code, signal) => ended(this.#lastWord(`its process ended with ${signal ?? code}`)));
  }

  /** `worthMs`: what it may take of a processor, by the argument's size. */
  async call<T>(call: Call, argument: unknown, worthMs: number, expected: z.ZodType<T>): Promise<T> {
    invariant(this.#answer === null, 'a tokenizer answers one call after another');
    const allowedMs = Math.min(this.#leastMs, this.#allowedMs) + worthMs;
    this.#allowedMs = allowedMs;
    const answer = await new Promise<Answer>((resolve) => {
      const timer = setTimeout(
        () => this.#answer?.({ fault: this.#lateness(call) }),
        WAIT_MS + WAIT_FACTOR * allowedMs,
      );
      this.#answer = (of) => {
        clearTimeout(timer);
        this.#answer = null;
        resolve('fault' in of && of.fault === LATE ? { fault: this.#lateness(call) } : of);
      };
      void this.#ready.then(() => {
        if (this.#end !== null) this.#answer?.({ fault: this.#end });
        else this.#child.send({ call, argument, allowedMs });
      });
    });
    if (!('fault' in answer)) this.#allowedMs -= answer.spentMs;
    const value = 'fault' in answer ? null : expected.safeParse(answer.value);
    if (value?.success) return value.data;
    this.close();
    // The library reads what it does not check: its own words are all there is.
    const fault = 'fault' in answer ? answer.fault : 'its tokens are no whole numbers';
    throw new TokenizerFault(`${this.#path} is not a Hugging Face tokenizer.json that can be used: ${fault}`);
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }

  #lastWord(otherwise: string): string {
    if (this.#lastWords.endsWith(LATE)) return LATE;
    if (this.#lastWords.endsWith('memory')) return 'it needs more than 2 GiB of memory';
    const line = this.#lastWords.trim().split('\n').at(-1) ?? '';
    return line === '' ? otherwise : `${otherwise}: ${line}`;
  }

  #lateness(call: Call): string {
    const seconds = (this.#allowedMs / 1000).toFixed(1);
    return call === 'open'
      ? `after ${seconds} s it was not read, one of its size was expected to be`
      : `after ${seconds} s a text was not ${call.startsWith('decode') ? 'decoded' : 'encoded'}, ${CHARACTERS_PER_MS * 1000} characters a second were expected`;
  }
}

/** The tokenizer's files as an export has them: name there, and path here. */
export async function tokenizerFiles(path: string): Promise<{ readonly name: string; readonly path: string }[]> {
  const folder = dirname(path);
  const beside = new Set(await readdir(folder));
  const companions = COMPANIONS.filter((name) => beside.has(name)).map((name) => ({ name, path: join(folder, name) }));
  return [{ name: TOKENIZER_FILE, path }, ...companions];
}
