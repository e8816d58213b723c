/**
 * The texts of runs as tokens: each run's model, its tokenizer and the tokens that begin and end its texts. A tokenizer is a
 * process; it is opened when it is needed, shared by all who ask, and let go when nobody has for a while.
 */

import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { wholeModelOf } from '../../swarm/run/runFile.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { exportedTokenizer, storedText } from '../store/exportRun.ts';
import { storedDocument } from '../store/runDocument.ts';
import { CHAT_TEMPLATE_FILE, type ChatText, chatTextOf } from '../texts/chatText.ts';
import { endTokens, GENERATION_CONFIG_FILE } from '../texts/endTokens.ts';
import { addedText } from '../texts/sampleText.ts';
import {
  BYTES,
  NoTokenError,
  openTokenizer,
  type TextTokenizer,
  TOKENIZER_FILE,
  TokenizerFault,
} from '../texts/tokenizer.ts';

import { SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE } from '../texts/tokenizerConfig.ts';

const IDLE_MS = 600_000;

/** A tokenizer's calls are made one after another. What it fails over is tried once more with a new one. */
class SharedTokenizer {
  /** Null: a byte is a token. */
  readonly #path: string | null;
  #opened: TextTokenizer | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;

  constructor(path: string | null) {
    this.#path = path;
  }

  use<T>(work: (tokenizer: TextTokenizer) => Promise<T>): Promise<T> {
    const done = this.#last.then(() => this.#attempt(work));
    this.#last = done.catch(() => {});
    return done;
  }

  close(): void {
    clearTimeout(this.#idle);
    this.#opened?.close();
    this.#opened = null;
  }

  async #attempt<T>(work: (tokenizer: TextTokenizer) => Promise<T>): Promise<T> {
    clearTimeout(this.#idle);
    try {
      // Over many calls a process may have taken longer than their sizes are worth, which is no fault of this one.
      return await work(await this.#tokenizer()).catch(async (error: unknown) => {
        if (!(error instanceof TokenizerFault)) throw error;
        this.close();
        return work(await this.#tokenizer());
      });
    } finally {
      this.#idle = setTimeout(() => this.close(), IDLE_MS).unref();
    }
  }

  async #tokenizer(): Promise<TextTokenizer> {
    if (this.#path === null) return BYTES;
    if (this.#opened !== null) return this.#opened;
    const opened = await openTokenizer(this.#path);
    if (!opened.ok) throw new TokenizerFault(opened.reason);
    this.#opened = opened.value;
    return opened.value;
  }
}

/** Of one run. */
export interface RunText {
  readonly model: Model;
  /** Any of them ends a text. */
  readonly ends: readonly number[];
  /** What a text that has no tokens begins with; null: there is none. */
  readonly beginning: number | null;
  /** The reason begins with a verb: "has …". */
  encode(text: string): Promise<Result<number[]>>;
  /** What the model is to read of a chat, up to where its answer begins; null: it has no chat template. */
  readonly chat: ChatText | null;
  /** What an answer adds to a prompt, as far as its characters are whole. */
  added(given: readonly number[], added: readonly number[]): Promise<string>;
}

export class RunTexts {
  readonly #data: DataDirectory;
  readonly #tokenizers = new Map<string, SharedTokenizer>();
  readonly #texts = new Map<string, Promise<RunText>>();

  constructor(data: DataDirectory) {
    this.#data = data;
  }

  /** Of a run that the store has. Throws a `TokenizerFault` where its tokenizer cannot be used. */
  of(run: string): Promise<RunText> {
    const known = this.#texts.get(run) ?? this.#read(run);
    this.#texts.set(run, known);
    // What cannot be read now may be read the next time.
    known.catch(() => this.#texts.delete(run));
    return known;
  }

  close(): void {
    for (const tokenizer of this.#tokenizers.values()) tokenizer.close();
  }

  async #read(run: string): Promise<RunText> {
    const { store, blobs } = this.#data;
    const { file, tokenizer: stored } = storedDocument(store, run);
    const model = wholeModelOf(file);
    const own = stored.find(({ name }) => name === TOKENIZER_FILE);
    const shared = new SharedTokenizer(own === undefined ? null : blobs.path(own.hash));
    this.#tokenizers.set(run, shared);
    const generationConfig = await storedText(stored, blobs, GENERATION_CONFIG_FILE);
    const textOf = (name: string): Promise<string | null> => storedText(stored, blobs, name);
    const chatFiles = {
      template: await textOf(CHAT_TEMPLATE_FILE),
      config: await textOf(TOKENIZER_CONFIG_FILE),
      specialTokens: await textOf(SPECIAL_TOKENS_FILE),
      tokenizer: await textOf(TOKENIZER_FILE),
    };
    const { config: tokenizerConfig } = await exportedTokenizer(stored, model, blobs);
    const files = { config: model.config, generationConfig, tokenizerConfig };
    const { vocabulary } = model;
    /** As text, of answers under way. */
    const prompts = new WeakMap<readonly number[], string>();
    return {
      model,
      ends: await shared.use((tokenizer) => endTokens(tokenizer, { ...files, vocabulary })),
      beginning: await shared.use((tokenizer) => tokenizer.beginning()),
      chat: chatTextOf(chatFiles, new Date(store.createdAtMs(run))),
      encode: (text) => shared.use((tokenizer) => encoded(tokenizer, text, vocabulary)),
      added: (given, more) =>
        shared.use(async (tokenizer) => {
          const prompt = prompts.get(given) ?? (await tokenizer.decode(given));
          prompts.set(given, prompt);
          return addedText(tokenizer, given, more, prompt);
        }),
    };
  }
}

async function encoded(tokenizer: TextTokenizer, text: string, vocabulary: number): Promise<Result<number[]>> {
  try {
    const ids = await tokenizer.encode(text);
    const outside = ids.find((id) => id >= vocabulary);
    return outside === undefined
      ? success(ids)
      : refusal(`has the token ${outside}, but the model has ${vocabulary} tokens`);
  } catch (error) {
    if (error instanceof NoTokenError) return refusal(error.message);
    throw error;
  }
}
