/**
 * Questions to the model of a training, from a file: each is sent over HTTP when its step is first announced, as anyone
 * would ask, and asked again where there was no place for it. They are answered in whatever order and written in the file's.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { count } from '../../swarm/fields.ts';
import { parseJson } from '../../swarm/parseJson.ts';
import { fileBytes, readFault } from '../files/namedFile.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { parseBody } from './apiBody.ts';

const FILE_LIMIT_BYTES = 16 * 2 ** 20;
/** A server that was killed comes back. */
const PAUSE_MS = 1_000;
const MOST_LOST = 120;

interface ModelRequest {
  readonly id: string | number;
  /** Sent when this step is announced; after the last one where there is no such step. */
  readonly atStep: number;
  /** Of `/v1/completions`. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface RequestAnswer {
  readonly id: string | number;
  /** Of the last answer; 500 where it broke off. */
  readonly status: number;
  /** Null, as all that follows: there is no answer. */
  readonly text: string | null;
  readonly finishReason: string | null;
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  /** Since it was sent first. */
  readonly firstTokenSeconds: number | null;
  readonly seconds: number;
  readonly fromStep: number | null;
  readonly toStep: number | null;
}

const lineSchema = z.looseObject({
  id: z.union([z.string().min(1), z.number()], { error: 'must be a text or a number' }),
  atStep: count,
});

/** One JSON object a line: a body of `/v1/completions` with `id` and `atStep`; one that names no model asks this one. */
export async function readModelRequests(path: string, model: string): Promise<Result<ModelRequest[]>> {
  let text: string;
  try {
    const size = await fileBytes(path);
    if (size > FILE_LIMIT_BYTES)
      return refusal(`${path} has ${size} bytes: a file of requests of at most ${FILE_LIMIT_BYTES} was expected`);
    text = await readFile(path, 'utf8');
  } catch (error) {
    return refusal(`${path}: ${readFault(error)}: a file of requests was expected`);
  }
  const requests: ModelRequest[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const request = requestOf(line, model);
    if (!request.ok) return refusal(`${path} line ${index + 1}: ${request.reason}`);
    if (requests.some(({ id }) => id === request.value.id))
      return refusal(`${path} line ${index + 1}: id ${JSON.stringify(request.value.id)} is another line’s already`);
    requests.push(request.value);
  }
  return requests.length === 0 ? refusal(`${path} has no line: requests were expected`) : success(requests);
}

function requestOf(line: string, model: string): Result<ModelRequest> {
  const json = parseJson(line);
  if (!json.ok) return json;
  const parsed = lineSchema.safeParse(json.value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = issue?.path.join('.') || 'it';
    const isMissing = issue?.message.endsWith('received undefined');
    return refusal(`${field} ${isMissing ? 'is missing: a whole number of 0 or more was expected' : issue?.message}`);
  }
  const { id, atStep, ...rest } = parsed.data;
  const body = { model, ...rest };
  const checked = parseBody('completion', body);
  return checked.ok ? success({ id, atStep, body }) : refusal(checked.error.message);
}

/** Where they are sent to. */
interface AskedServer {
  readonly url: string;
  /** Its fragment has the key of who opened the server. */
  donorUrl(donor: number): string;
}

export class ModelRequests {
  readonly #requests: readonly ModelRequest[];
  readonly #sent = new Map<ModelRequest, Promise<RequestAnswer>>();
  readonly #end = new AbortController();

  constructor(requests: readonly ModelRequest[]) {
    this.#requests = requests;
  }

  stepAnnounced(server: AskedServer, step: number): void {
    for (const request of this.#requests)
      if (request.atStep <= step && !this.#sent.has(request)) {
        const answer = answered(server, request, this.#end.signal);
        answer.catch(() => {}); // whoever waits for all of them hears of it
        this.#sent.set(request, answer);
      }
  }

  /** After the last step: the answers of all, in the file's order. */
  async finish(server: AskedServer): Promise<readonly RequestAnswer[]> {
    this.stepAnnounced(server, Number.POSITIVE_INFINITY);
    return Promise.all(this.#requests.flatMap((request) => this.#sent.get(request) ?? []));
  }

  close(): void {
    this.#end.abort();
  }
}

/** It is lost where the server is away; one that was killed comes back. */
async function answered(server: AskedServer, request: ModelRequest, signal: AbortSignal): Promise<RequestAnswer> {
  const beganMs = monotonicMs();
  for (let lost = 0; ; ) {
    try {
      const response = await asked(server, request, signal);
      if (response.status !== 429) return await answerIn(response, request.id, beganMs);
      await response.body?.cancel();
      await sleep(Number(response.headers.get('retry-after') ?? 1) * 1_000, undefined, { signal });
    } catch (error) {
      lost++;
      if (signal.aborted || lost === MOST_LOST) throw error;
      await sleep(PAUSE_MS, undefined, { signal });
    }
  }
}

const asked = (server: AskedServer, { body }: ModelRequest, signal: AbortSignal): Promise<Response> =>
  fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${new URL(server.donorUrl(0)).hash.replace('#own=', '')}`,
    },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });

const eventSchema = z.object({
  choices: z.array(z.object({ text: z.string(), finish_reason: z.string().nullable() })).default([]),
  usage: z.object({ prompt_tokens: z.int(), completion_tokens: z.int() }).nullish(),
  shoal: z.object({ fromStep: z.int(), toStep: z.int() }).optional(),
  error: z.unknown().optional(),
});

/** Reads a stream of events. Throws where it ends before its end. */
async function answerIn(response: Response, id: RequestAnswer['id'], beganMs: number): Promise<RequestAnswer> {
  const seconds = (): number => (monotonicMs() - beganMs) / 1_000;
  const none = { text: null, finishReason: null, promptTokens: null, completionTokens: null, firstTokenSeconds: null };
  const nothing = { ...none, fromStep: null, toStep: null };
  if (!response.ok || response.body === null) {
    await response.body?.cancel();
    return { id, status: response.status, ...nothing, seconds: seconds() };
  }
  let [text, finishReason, firstTokenSeconds] = ['', null as string | null, null as number | null];
  let pending = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    const events = (pending + decoder.decode(bytes, { stream: true })).split('\n\n');
    pending = events.pop() ?? '';
    for (const event of events) {
      if (event === 'data: [DONE]') continue;
      const { choices, usage, shoal, error } = eventSchema.parse(JSON.parse(event.replace(/^data: /, '')));
      if (error !== undefined) return { id, status: 500, ...nothing, seconds: seconds() };
      for (const choice of choices) {
        if (choice.text !== '') firstTokenSeconds ??= seconds();
        text += choice.text;
        finishReason ??= choice.finish_reason;
      }
      if (!usage || !shoal) continue;
      const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage;
      const made = {
        promptTokens,
        completionTokens,
        firstTokenSeconds: firstTokenSeconds ?? seconds(),
        seconds: seconds(),
      };
      return {
        id,
        status: response.status,
        text,
        finishReason,
        ...made,
        fromStep: shoal.fromStep,
        toStep: shoal.toStep,
      };
    }
  }
  throw new Error('the answer ended before its end');
}
