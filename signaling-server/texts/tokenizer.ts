/**
 * A Hugging Face tokenizer.json: text to token ids and back, by the library in a thread. No special tokens are added;
 * those that stand in the text itself are found, as the library finds them. The file is not believed: what takes longer
 * than its bytes, or the text's, can need is ended.
 */
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { invariant, type Result, refusal, success } from '../../swarm/base.ts';
import { fileBytes, readFault } from '../files/namedFile.ts';
import { SOURCES_FOLDER } from '../files/projectRoot.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE } from './tokenizerConfig.ts';

/** Text without a token: the tokenizer has neither bytes nor an unknown token to fall back on. */
export const NO_TOKEN = -1;

/** Its calls are made one after another; each throws a `TokenizerFault` where it comes to no answer. */
export interface TextTokenizer {
  /** Ids go from 0 to below this. */
  readonly ids: number;
  /** `NO_TOKEN` stands for text that has none. */
  encode(text: string): Promise<number[]>;
  decode(ids: readonly number[]): Promise<string>;
  close(): void;
}

/** Its message begins with the path of the tokenizer.json. */
export class TokenizerFault extends Error {}

/** The largest that is in use has 33 MB. */
const TOKENIZER_LIMIT_BYTES = 40 * 2 ** 20;
const THREAD_FILE = join(SOURCES_FOLDER, 'texts', 'tokenizerThread.mjs');
/** The largest in use takes a third of it. */
const THREAD_LIMIT_MB = 2_048;
/** Whatever the size; beside it what an honest file or text needs several times over on a slow machine. */
const LEAST_MS = 2_500;
const FILE_BYTES_PER_MS = 10_000;
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
  const thread = new TokenizerThread(path, leastMs);
  try {
    const ids = await thread.call('open', bytes, bytes.length / FILE_BYTES_PER_MS, z.int());
    if (ids > 0) return success(tokenizerOf(thread, ids));
    thread.close();
    return refusal(`${path} is not a Hugging Face tokenizer.json: it has no tokens`);
  } catch (error) {
    thread.close();
    if (error instanceof TokenizerFault) return refusal(error.message);
    throw error;
  }
}

const encodedSchema = z.array(z.int().optional());

function tokenizerOf(thread: TokenizerThread, ids: number): TextTokenizer {
  return {
    ids,
    async encode(text) {
      const found = await thread.call('encode', text, text.length / CHARACTERS_PER_MS, encodedSchema);
      return found.map((id) => id ?? NO_TOKEN);
    },
    async decode(list) {
      // A model's vocabulary may be larger: its other ids stand for nothing.
      const known = list.filter((id) => id < ids);
      if (known.length === 0) return '';
      return thread.call('decode', known, known.length / TOKENS_PER_MS, z.string());
    },
    close: () => thread.close(),
  };
}

const answerSchema = z.union([z.object({ value: z.unknown() }), z.object({ fault: z.string() })]);
type Call = 'open' | 'encode' | 'decode';
type Answer = { readonly value?: unknown } | { readonly fault: string };

/**
 * Who takes long is allowed less the next time: over many calls as much as their sizes are worth, and `leastMs` once.
 */
class TokenizerThread {
  readonly #path: string;
  readonly #worker = new Worker(THREAD_FILE, { resourceLimits: { maxOldGenerationSizeMb: THREAD_LIMIT_MB } });
  readonly #leastMs: number;
  #allowedMs: number;
  #answer: ((answer: Answer) => void) | null = null;

  constructor(path: string, leastMs: number) {
    this.#path = path;
    this.#leastMs = leastMs;
    this.#allowedMs = leastMs;
    this.#worker.unref(); // the timer of a call keeps the process alive
    const answer = (of: Answer): void => this.#answer?.(of);
    this.#worker.on('message', (message) => answer(answerSchema.parse(message)));
    this.#worker.on('error', ({ message }: Error) => answer({ fault: message }));
    this.#worker.on('exit', () => answer({ fault: 'its thread ended' }));
  }

  /** `worthMs`: what it may take, by the argument's size. */
  async call<T>(call: Call, argument: unknown, worthMs: number, expected: z.ZodType<T>): Promise<T> {
    invariant(this.#answer === null, 'a tokenizer answers one call after another');
    this.#allowedMs = Math.min(this.#leastMs, this.#allowedMs) + worthMs;
    const spentMs = stopwatch();
    const answer = await new Promise<Answer>((resolve) => {
      const isLate = (): void => {
        const leftMs = this.#allowedMs - spentMs();
        if (leftMs > 0) timer = setTimeout(isLate, leftMs + 1);
        else this.#answer?.({ fault: this.#lateness(call) });
      };
      let timer = setTimeout(isLate, this.#allowedMs);
      this.#answer = (of) => {
        clearTimeout(timer);
        this.#answer = null;
        resolve(of);
      };
      this.#worker.postMessage({ call, argument });
    });
    this.#allowedMs -= spentMs();
    const value = 'fault' in answer ? null : expected.safeParse(answer.value);
    if (value?.success) return value.data;
    this.close();
    // The library reads what it does not check: its own words are all there is.
    const fault = 'fault' in answer ? answer.fault : 'its tokens are no whole numbers';
    throw new TokenizerFault(`${this.#path} is not a Hugging Face tokenizer.json that can be used: ${fault}`);
  }

  close(): void {
    void this.#worker.terminate();
  }

  #lateness(call: Call): string {
    const seconds = (this.#allowedMs / 1000).toFixed(1);
    return call === 'open'
      ? `after ${seconds} s it was not read, one of its size was expected to be`
      : `after ${seconds} s a text was not ${call}d, ${CHARACTERS_PER_MS * 1000} characters a second were expected`;
  }
}

/** Milliseconds in which this process had a processor: nobody is late because the machine is busy. */
function stopwatch(): () => number {
  const startMs = monotonicMs();
  const start = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(start);
    return Math.min(monotonicMs() - startMs, (user + system) / 1000);
  };
}

/** The tokenizer's files as an export has them: name there, and path here. */
export async function tokenizerFiles(path: string): Promise<{ readonly name: string; readonly path: string }[]> {
  const folder = dirname(path);
  const beside = new Set(await readdir(folder));
  const companions = COMPANIONS.filter((name) => beside.has(name)).map((name) => ({ name, path: join(folder, name) }));
  return [{ name: TOKENIZER_FILE, path }, ...companions];
}
