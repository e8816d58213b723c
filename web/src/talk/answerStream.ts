/**
 * One question to the model, and its answer as it comes: server-sent events in the form of OpenAI's API, each checked. An
 * answer ends with where it is from, or with why there is none.
 */
import { z } from 'zod';
import { withRun } from '../page/ofRun.ts';

/** With which weights an answer was made: the fewest and the most steps in them, and how many donors computed it. */
const originSchema = z.object({ fromStep: z.number(), toStep: z.number(), donors: z.number() });
export type AnswerOrigin = z.infer<typeof originSchema>;

/** Why there is no answer, or no more of it. */
export interface AnswerFailure {
  /** Of HTTP; 0: the server was not reached. */
  readonly status: number;
  readonly code: string | null;
  readonly type: string | null;
  readonly message: string;
  /** When to ask again; null: nobody said. */
  readonly retrySeconds: number | null;
}

export type AnswerTold =
  | { readonly type: 'wrote'; readonly text: string }
  | { readonly type: 'whole'; readonly origin: AnswerOrigin; readonly finish: 'stop' | 'length' }
  | { readonly type: 'failed'; readonly failure: AnswerFailure };

const errorSchema = z.object({
  error: z.object({ message: z.string(), type: z.string().nullable(), code: z.string().nullable() }),
});
const chunkSchema = z.object({
  choices: z.array(
    z.object({
      text: z.string().optional(),
      delta: z.object({ content: z.string().optional() }).optional(),
      finish_reason: z.enum(['stop', 'length']).nullable(),
    }),
  ),
  shoal: originSchema.optional(),
});

const BROKEN: AnswerFailure = { status: 500, code: null, type: null, message: '', retrySeconds: null };
const LOST: AnswerFailure = { ...BROKEN, status: 0 };

/** The events that are whole in a stream so far, each as its data, and what is left over of the text. */
export function takeEvents(text: string): { readonly events: readonly string[]; readonly rest: string } {
  const blocks = text.replaceAll('\r\n', '\n').split('\n\n');
  const rest = blocks.pop() ?? '';
  const events = blocks.flatMap((block) => {
    const data = block.split('\n').flatMap((line) => /^data: ?(.*)$/.exec(line)?.[1] ?? []);
    return data.length === 0 ? [] : [data.join('\n')];
  });
  return { events, rest };
}

/** What one event says of an answer. Some say nothing: a chat's role, the usage. */
export function toldBy(data: string): readonly AnswerTold[] {
  const body = parsedJson(data);
  const error = errorSchema.safeParse(body);
  if (error.success) return [{ type: 'failed', failure: { ...BROKEN, ...error.data.error } }];
  const chunk = chunkSchema.safeParse(body);
  if (!chunk.success) return [{ type: 'failed', failure: BROKEN }];
  const { choices, shoal: origin } = chunk.data;
  return choices.flatMap(({ text, delta, finish_reason: finish }): readonly AnswerTold[] => {
    const words = text ?? delta?.content ?? '';
    return [
      ...(words === '' ? [] : [{ type: 'wrote', text: words } as const]),
      ...(finish === null || origin === undefined ? [] : [{ type: 'whole', origin, finish } as const]),
    ];
  });
}

/** Ends after `whole` or `failed`; without either where the signal is aborted. */
export async function* askModel(path: string, body: object, signal: AbortSignal): AsyncGenerator<AnswerTold> {
  try {
    const response = await fetch(withRun(path), {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, signal },
      body: JSON.stringify(body),
    });
    if (!response.ok || response.body === null) {
      yield { type: 'failed', failure: await failureOf(response) };
      return;
    }
    yield* streamed(response.body);
  } catch {
    if (!signal.aborted) yield { type: 'failed', failure: LOST };
  }
}

async function* streamed(body: ReadableStream<Uint8Array>): AsyncGenerator<AnswerTold> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = '';
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const { events, rest } = takeEvents(text + decoder.decode(part.value, { stream: true }));
    text = rest;
    for (const told of events.flatMap(toldBy)) {
      yield told;
      if (told.type !== 'wrote') return;
    }
  }
  yield { type: 'failed', failure: BROKEN };
}

async function failureOf(response: Response): Promise<AnswerFailure> {
  const error = errorSchema.safeParse(await response.json().catch(() => null));
  const { status, headers } = response;
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  const said = error.success ? error.data.error : {};
  return { ...BROKEN, ...said, status, retrySeconds: Number.isFinite(seconds) ? seconds : null };
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
