/**
 * What a call of `/v1/completions` or `/v1/chat/completions` asks for. Every field of OpenAI's is known by name: it is
 * done, or changes nothing, or is taken only where it says what happens anyway; else it is refused by its name, as is any other.
 */
import { z } from 'zod';
import { type ApiError, invalid } from './apiErrors.ts';

const MOST_STOPS = 4;
/** Longer ones would cost every token a search. */
const STOP_LENGTH = 1_000;
const MOST_METADATA = 16;

/** Taken only with these values, or where it is null. */
const only = (...values: unknown[]) =>
  z
    .unknown()
    .refine((value) => value == null || values.some((each) => JSON.stringify(each) === JSON.stringify(value)), {
      error: `is not done here${values.length === 0 ? '' : `, but ${values.map((value) => JSON.stringify(value)).join(' or ')}`}: leave it out`,
    })
    .optional();

const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text);
const stop = z
  .string()
  .min(1, 'a stop string must have at least one character')
  .max(STOP_LENGTH, `a stop string must have at most ${STOP_LENGTH} characters`)
  .refine(isWellFormed, 'a stop string must be well-formed text');
const tokens = z.int().min(1).nullish();

const SHARED = {
  model: z.string(),
  max_tokens: tokens,
  max_completion_tokens: tokens,
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  seed: z.int().nullish(),
  stop: z
    .preprocess((value) => (typeof value === 'string' ? [value] : value), z.array(stop).max(MOST_STOPS).nullish())
    .optional(),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().nullish(), include_obfuscation: z.boolean().nullish() })
    .nullish(),
  n: only(1),
  frequency_penalty: only(0),
  presence_penalty: only(0),
  logit_bias: only({}),
  user: z.string().nullish(),
};

const completionSchema = z.strictObject({
  ...SHARED,
  prompt: z.string(),
  best_of: only(1),
  echo: only(false),
  logprobs: only(),
  suffix: only(),
});

const textPart = z.object({ type: z.literal('text'), text: z.string() });
const content = z.union(
  [z.string(), z.array(textPart).transform((parts) => parts.map(({ text }) => text).join('\n'))],
  {
    error: 'must be a text, or a list of parts that are texts',
  },
);
/** Its further fields are the template's. */
const messageSchema = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']),
  content: content.nullish(),
});
type ChatMessage = z.infer<typeof messageSchema>;

const chatSchema = z.strictObject({
  ...SHARED,
  messages: z.array(messageSchema).min(1),
  logprobs: only(false),
  top_logprobs: only(),
  tools: only([]),
  tool_choice: only('none', 'auto'),
  parallel_tool_calls: z.boolean().nullish(),
  functions: only([]),
  function_call: only('none', 'auto'),
  response_format: only({ type: 'text' }),
  modalities: only(['text']),
  audio: only(),
  prediction: only(),
  moderation: only(),
  web_search_options: only(),
  reasoning_effort: only(),
  verbosity: only('medium'),
  service_tier: only('auto', 'default'),
  store: only(false),
  metadata: z
    .record(z.string(), z.string())
    .refine((pairs) => Object.keys(pairs).length <= MOST_METADATA, `has at most ${MOST_METADATA} keys`)
    .nullish(),
  prompt_cache_key: z.string().nullish(),
  prompt_cache_options: z.unknown().optional(),
  prompt_cache_retention: z.string().nullish(),
  safety_identifier: z.string().nullish(),
});

/** What both calls ask for, with OpenAI's defaults. */
export interface AnswerRequest {
  readonly model: string;
  /** A text to go on with, or messages to answer. */
  readonly prompt: string | readonly ChatMessage[];
  /** Null: as many as there is room for. */
  readonly mostTokens: number | null;
  readonly temperature: number;
  readonly topP: number;
  /** Null: any. */
  readonly seed: number | null;
  readonly stops: readonly string[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

export type Kind = 'completion' | 'chat';
const COMPLETION_TOKENS = 16;

type Parsed = { readonly ok: true; readonly value: AnswerRequest } | { readonly ok: false; readonly error: ApiError };
const wrong = (param: string | null, message: string): Parsed => ({ ok: false, error: invalid(param, message) });

export function parseBody(kind: Kind, body: unknown): Parsed {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return wrong(null, 'expected a JSON object as the body');
  const parsed = (kind === 'chat' ? chatSchema : completionSchema).safeParse(body);
  if (!parsed.success) return faultOf(parsed.error.issues[0]);
  const { data } = parsed;
  const { max_tokens: most, max_completion_tokens: mostCompletion } = data;
  if (most != null && mostCompletion != null && most !== mostCompletion)
    return wrong(
      'max_completion_tokens',
      'max_tokens and max_completion_tokens say different things: leave one of them out',
    );
  if (data.stream_options != null && data.stream !== true)
    return wrong('stream_options', 'stream_options is only for a stream: leave it out, or say "stream": true');
  const isChat = 'messages' in data;
  return {
    ok: true,
    value: {
      model: data.model,
      prompt: isChat ? data.messages : data.prompt,
      mostTokens: mostCompletion ?? most ?? (isChat ? null : COMPLETION_TOKENS),
      temperature: data.temperature ?? 1,
      topP: data.top_p ?? 1,
      seed: data.seed ?? null,
      stops: data.stop ?? [],
      stream: data.stream ?? false,
      includeUsage: data.stream_options?.include_usage ?? false,
    },
  };
}

/** `param`: the field of the body; the sentence says where in it. */
function faultOf(issue: z.core.$ZodIssue | undefined): Parsed {
  const [field] = issue?.code === 'unrecognized_keys' ? [...issue.path, ...issue.keys] : (issue?.path ?? []);
  const param = String(field);
  if (issue?.code === 'unrecognized_keys')
    return wrong(param, `${[...issue.path, issue.keys[0]].join('.')} is no field that is known here: leave it out`);
  const message = issue?.message ?? 'is not understood';
  return wrong(param, `${issue?.path.join('.')} ${message.endsWith('received undefined') ? 'is missing' : message}`);
}
