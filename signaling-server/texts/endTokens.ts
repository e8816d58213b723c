/**
 * The tokens that end a text: every one that the model's config or its generation config names, and the `eos_token` of the
 * tokenizer's own config where that is one token.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { parseJson } from '../../swarm/parseJson.ts';
import { NoTokenError, type TextTokenizer } from './tokenizer.ts';
import { TOKENIZER_CONFIG_FILE } from './tokenizerConfig.ts';

/** What Hugging Face folders have beside the weights. */
export const GENERATION_CONFIG_FILE = 'generation_config.json';

const NAMED = z.object({ eos_token_id: z.union([z.int(), z.array(z.int())]).catch([]) }).catch({ eos_token_id: [] });
const SPOKEN = z
  .object({ eos_token: z.union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)]) })
  .nullable()
  .catch(null);

/** Files are given as their texts; null: there is none. A file of another form names no token. */
interface EndsOf {
  readonly config: unknown;
  readonly vocabulary: number;
  readonly generationConfig: string | null;
  readonly tokenizerConfig: string | null;
}

export async function endTokens(
  tokenizer: Pick<TextTokenizer, 'encode'>,
  { config, vocabulary, generationConfig, tokenizerConfig }: EndsOf,
): Promise<number[]> {
  const named = [config, jsonOf(generationConfig)].flatMap((file) => NAMED.parse(file).eos_token_id);
  const text = SPOKEN.parse(jsonOf(tokenizerConfig))?.eos_token ?? '';
  const spoken = await tokenizer.encode(text).catch((error: unknown) => {
    if (error instanceof NoTokenError) return [];
    throw error;
  });
  const ends = spoken.length === 1 ? [...named, ...spoken] : named;
  return [...new Set(ends)].filter((id) => id >= 0 && id < vocabulary);
}

/** The one that ends a completion that is trained on: the tokenizer's, else the model's first; null: there is none. */
export async function endToken(
  tokenizer: Pick<TextTokenizer, 'idOf'>,
  { config, vocabulary, tokenizerConfig }: Omit<EndsOf, 'generationConfig'>,
): Promise<Result<number | null>> {
  const text = SPOKEN.parse(jsonOf(tokenizerConfig))?.eos_token;
  const id = text === undefined ? ([NAMED.parse(config).eos_token_id].flat()[0] ?? null) : await tokenizer.idOf(text);
  if (text !== undefined && id === null)
    return refusal(
      `${TOKENIZER_CONFIG_FILE} beside it has the eos_token ${JSON.stringify(text)}, which is no token of it`,
    );
  if (id === null || (id >= 0 && id < vocabulary)) return success(id);
  return refusal(`the token ${id} ends its texts, but model.vocab_size is ${vocabulary}`);
}

function jsonOf(text: string | null): unknown {
  const json = parseJson(text ?? '');
  return json.ok ? json.value : null;
}
