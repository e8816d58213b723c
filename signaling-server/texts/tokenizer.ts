/**
 * A Hugging Face tokenizer.json: text to token ids and back, by the library. No special tokens are added; those that
 * stand in the text itself are found, as the library finds them.
 */
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { fileBytes, readFault } from '../files/namedFile.ts';
import { explosivePattern } from './explosive.ts';

/** Text without a token: the tokenizer has neither bytes nor an unknown token to fall back on. */
export const NO_TOKEN = -1;

export interface TextTokenizer {
  /** Ids go from 0 to below this. */
  readonly ids: number;
  /** `NO_TOKEN` stands for text that has none. */
  encode(text: string): number[];
  decode(ids: readonly number[]): string;
}

/** Twice as large as the largest that is in use. */
const TOKENIZER_LIMIT_BYTES = 64 * 2 ** 20;

export const TOKENIZER_FILE = 'tokenizer.json';
/** What `transformers` writes and reads beside a tokenizer.json. */
const COMPANIONS = [
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'tokenizer.model',
  'chat_template.jinja',
];

/** Reasons begin with the path. */
export async function openTokenizer(path: string): Promise<Result<TextTokenizer>> {
  try {
    const size = await fileBytes(path);
    if (size > TOKENIZER_LIMIT_BYTES)
      return refusal(`${path} has ${size} bytes: a tokenizer.json of at most ${TOKENIZER_LIMIT_BYTES} was expected`);
    return parseTokenizer(await readFile(path, 'utf8'), path);
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: a Hugging Face tokenizer.json was expected`);
  }
}

function parseTokenizer(text: string, path: string): Result<TextTokenizer> {
  try {
    // Decoding gives back what was encoded only if spaces are left as they are.
    const json: unknown = JSON.parse(text);
    const explosive = explosivePattern(json);
    if (explosive !== null)
      return refusal(
        `${path} has the regular expression ${explosive.slice(0, 100)}, which may take for ever: one without a repetition or a choice inside a repetition was expected`,
      );
    const library = new Tokenizer(json as ConstructorParameters<typeof Tokenizer>[0], {
      clean_up_tokenization_spaces: false,
    });
    let ids = 0;
    for (const id of library.get_vocab().values()) ids = Math.max(ids, id + 1);
    if (ids === 0) return refusal(`${path} is no Hugging Face tokenizer.json: it has no tokens`);
    return success({
      ids,
      encode: (words) => {
        const found: readonly (number | undefined)[] = library.encode(words, { add_special_tokens: false }).ids;
        return found.map((id) => id ?? NO_TOKEN);
      },
      decode: (list) => {
        // A model's vocabulary may be larger: its other ids stand for nothing.
        const known = list.filter((id) => id < ids);
        return known.length === 0 ? '' : library.decode(known);
      },
    });
  } catch (error) {
    // The library reads what it does not check: its own words are all there is.
    const detail = error instanceof Error ? error.message : String(error);
    return refusal(`${path} is no Hugging Face tokenizer.json that can be used: ${detail}`);
  }
}

/** The tokenizer's files as an export has them: name there, and path here. */
export async function tokenizerFiles(path: string): Promise<{ readonly name: string; readonly path: string }[]> {
  const folder = dirname(path);
  const beside = new Set(await readdir(folder));
  const companions = COMPANIONS.filter((name) => beside.has(name)).map((name) => ({ name, path: join(folder, name) }));
  return [{ name: TOKENIZER_FILE, path }, ...companions];
}
