/**
 * The tokenizer_config.json of an export. `transformers` picks a tokenizer's class by it, or by the model's family where
 * there is none, and some classes change what a tokenizer.json says: Llama's takes any for SentencePiece's, and several
 * take spaces out before punctuation. With this file the tokenizer.json is read as it stands.
 */
import { z } from 'zod';
import { parseJson } from '../../swarm/parseJson.ts';

export const TOKENIZER_CONFIG_FILE = 'tokenizer_config.json';
export const SPECIAL_TOKENS_FILE = 'special_tokens_map.json';

const SPECIAL_TOKENS = ['bos', 'eos', 'unk', 'pad'] as const;

const OBJECT = z.record(z.string(), z.unknown());
const ADDED = z.object({ id: z.int(), content: z.string(), special: z.literal(true) });
/** What is read of a tokenizer.json; a part of another form says nothing here. */
const TOKENIZER = z.object({
  added_tokens: z.array(ADDED.nullable().catch(null)).catch([]),
  pre_tokenizer: z.object({ add_prefix_space: z.boolean() }).nullable().catch(null),
  model: z.object({ unk_token: z.string().nullable().catch(null), unk_id: z.int().nullable().catch(null) }).catch({
    ...{ unk_token: null, unk_id: null },
  }),
});

interface TokenizerFacts {
  /** The text of tokenizer.json. */
  readonly tokenizer: string;
  /** Texts of the files of those names beside it; null: there is none. */
  readonly given: string | null;
  readonly specialTokens: string | null;
  /** The model's config.json. */
  readonly model: Readonly<Record<string, unknown>>;
  readonly positions: number;
}

/** What the file beside the tokenizer says stays, except for what would have the tokenizer.json read otherwise. */
export function tokenizerConfig({ tokenizer, given, specialTokens, model, positions }: TokenizerFacts): string {
  const own = objectOf(given);
  const known = { ...objectOf(specialTokens), ...own };
  const { pre_tokenizer: before, ...rest } = TOKENIZER.parse(objectOf(tokenizer));
  const special = SPECIAL_TOKENS.flatMap((name): [string, unknown][] => {
    const token = known[`${name}_token`] ?? specialToken(name, rest, model);
    return token === null ? [] : [[`${name}_token`, token]];
  });
  const config = {
    ...own,
    ...Object.fromEntries(special),
    // Its absence is false there, over what the tokenizer.json says.
    ...(before === null ? {} : { add_prefix_space: before.add_prefix_space }),
    tokenizer_class: 'PreTrainedTokenizerFast',
    clean_up_tokenization_spaces: false,
    model_max_length: positions,
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}

/**
 * The token that the model's config, or the tokenizer's own model, names. Only one that the tokenizer.json has as a
 * special token: any other would become one by being named, and be cut out of the text that it stands in.
 */
function specialToken(
  name: (typeof SPECIAL_TOKENS)[number],
  tokenizer: Pick<z.output<typeof TOKENIZER>, 'added_tokens' | 'model'>,
  model: TokenizerFacts['model'],
): string | null {
  const given = model[`${name}_token_id`];
  const id = Array.isArray(given) ? given[0] : given;
  const { unk_token: text, unk_id: place } = tokenizer.model;
  const isNamed = (token: z.output<typeof ADDED>): boolean =>
    token.id === id || (name === 'unk' && (token.content === text || token.id === place));
  return tokenizer.added_tokens.find((token) => token !== null && isNamed(token))?.content ?? null;
}

/** Of a file that is no JSON object nothing is known. */
function objectOf(text: string | null): Readonly<Record<string, unknown>> {
  const json = parseJson(text ?? '');
  return OBJECT.catch({}).parse(json.ok ? json.value : null);
}
