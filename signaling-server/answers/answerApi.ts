/**
 * `/v1/…`, as OpenAI's clients speak it: which models there are, and texts that they go on with, whole or as they come. The
 * calls that are answered also serve the page `/talk`, under another address and with another rule of who is let in. What is
 * asked and answered is never logged, recorded or kept. Whoever closes the connection ends the work at once.
 */
import { randomInt } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { assertNever, invariant, success } from '../../swarm/base.ts';
import { perMinute } from '../http/calls.ts';
import type { Store } from '../store/store.ts';
import { TokenizerFault } from '../texts/tokenizer.ts';
import { type Answerer, AnswerFault, type AnswerRefusal } from './answerer.ts';
import { AnswerText } from './answerText.ts';
import { type AnswerRequest, type Kind, parseBody } from './apiBody.ts';
import type { ApiCallers, LetIn } from './apiCallers.ts';
import { type ApiError, errorBody, invalid, sendError, serverError, tooMany } from './apiErrors.ts';
import { answerEvents, event, wholeAnswer } from './apiForms.ts';
import type { RunText, RunTexts } from './runTexts.ts';

/** Of one address, whoever asks. */
const CALLS = perMinute(600);
/** The longest prompts in use, and four stop strings that are refused by their length. */
const BODY_LIMIT_BYTES = 5 * 2 ** 20;
const MOST_SEED = 2 ** 32;
/** No token has as many characters in the mean: a longer text need not be read to know that it is too long. */
const TOKEN_LENGTH = 256;
const NOT_THIS_TIME = 'the server failed over this answer';

export interface AnswerApiOptions {
  readonly store: Store;
  readonly texts: RunTexts;
  readonly answerer: Answerer;
  readonly callers: ApiCallers;
}

export function addAnswerApi(app: FastifyInstance, options: AnswerApiOptions): void {
  const { store, callers } = options;
  app.register(
    async (api) => {
      api.setNotFoundHandler((_request, reply) =>
        sendError(reply, invalid(null, 'there is nothing at this address', null, 404)),
      );
      addAnswerCalls(api, options, (request) => callers.letIn(request));
      api.get('/models', CALLS, async () => ({
        object: 'list',
        data: store.runNames().map((name) => modelObject(store, name, name)),
      }));
      api.get('/models/*', CALLS, async (request, reply) => {
        const { '*': asked = '' } = request.params as { '*'?: string };
        const found = modelNamed(store, asked);
        return 'status' in found ? sendError(reply, found) : modelObject(store, asked, found.run);
      });
      // Else it would be looked for among the pages.
      api.get('/*', CALLS, (_request, reply) => reply.callNotFound());
    },
    { prefix: '/v1' },
  );
}

/** Its answer is out, or nobody is there to read it. */
function whenClosed({ raw }: FastifyReply, act: () => void): void {
  if (raw.destroyed) act();
  else raw.once('close', act);
}

/** `api`: a scope of its own, since every call in it has these refusals and is let in by this rule. */
export function addAnswerCalls(
  api: FastifyInstance,
  options: AnswerApiOptions,
  letInBy: (request: FastifyRequest) => LetIn | ApiError,
): void {
  const letIn = new WeakMap<FastifyRequest, LetIn>();
  api.setErrorHandler((error: FastifyError, _request, reply) => sendError(reply, errorOf(error)));
  // After the limits of calls by address, before the body is read.
  api.addHook('preParsing', async (request, reply) => {
    const caller = letInBy(request);
    if ('status' in caller) return refuseCall(reply, caller);
    whenClosed(reply, caller.leave);
    letIn.set(request, caller);
  });
  for (const [path, kind] of [
    ['/completions', 'completion'],
    ['/chat/completions', 'chat'],
  ] as const)
    api.post(path, { ...CALLS, bodyLimit: BODY_LIMIT_BYTES }, (request, reply) => {
      const caller = letIn.get(request);
      invariant(caller, 'a call is let in before it is answered');
      return answerCall(options, caller, kind, request, reply);
    });
}

/** As in a hook before the call itself: it never resolves (http/calls.ts). */
function refuseCall(reply: FastifyReply, error: ApiError): Promise<never> {
  sendError(reply, error);
  return new Promise(() => {});
}

const errorOf = ({ statusCode = 500, message }: FastifyError): ApiError => {
  if (statusCode === 429)
    return tooMany('requests', 'too many calls came from your network address: try again in a minute', 60);
  return statusCode < 500 ? invalid(null, message, null, statusCode) : serverError(statusCode, NOT_THIS_TIME);
};

const modelObject = (store: Store, id: string, run: string) => ({
  ...{ id, object: 'model', created: Math.floor(store.createdAtMs(run) / 1_000), owned_by: 'shoal' },
});

interface NamedModel {
  readonly run: string;
  readonly step: number | null;
}

/** A run's name, or `NAME@STEP`: one of its checkpoints. */
function modelNamed(store: Store, model: string, onlyRun: string | null = null): NamedModel | ApiError {
  const [, run = model, digits] = /^(.*)@(\d{1,9})$/.exec(model) ?? [];
  const missing = (sentence: string): ApiError => invalid('model', sentence, 'model_not_found', 404);
  if ((onlyRun !== null && run !== onlyRun) || store.run(run) === null)
    return missing(`there is no model ${JSON.stringify(model.slice(0, 200))} here`);
  if (digits === undefined) return { run, step: null };
  const step = Number(digits);
  const kept = store.checkpoints(run).map(({ committedSteps }) => committedSteps);
  return kept.includes(step)
    ? { run, step }
    : missing(`${run} has no checkpoint after ${step} steps: it has those after ${kept.join(', ')}`);
}

const withoutTemplate = (run: string): string =>
  `the model of ${run} has no chat template, which says how it reads messages: ask it to go on with a text`;

/** A question in tokens, and what it takes to write its answer. */
interface Begun extends NamedModel {
  readonly text: RunText;
  readonly ids: readonly number[];
  /** With `ids` at most one more than there are positions. */
  readonly mostTokens: number;
}

async function begun(
  { store, texts }: AnswerApiOptions,
  { onlyRun }: LetIn,
  { model, prompt, mostTokens }: AnswerRequest,
): Promise<Begun | ApiError> {
  const named = modelNamed(store, model, onlyRun);
  if ('status' in named) return named;
  const text = await texts.of(named.run);
  const isChat = typeof prompt !== 'string';
  const words = typeof prompt === 'string' ? success(prompt) : text.chat?.(prompt);
  if (!words) return invalid('messages', withoutTemplate(named.run), 'no_chat_template');
  if (!words.ok) return invalid('messages', words.reason);
  const param = isChat ? 'messages' : 'prompt';
  const { positions } = text.model;
  const tooLong = (tokens: string): ApiError =>
    invalid(
      param,
      `${param} has ${tokens} tokens, and this model reads at most ${positions}`,
      'context_length_exceeded',
    );
  if (words.value.length > positions * TOKEN_LENGTH) return tooLong(`more than ${positions}`);
  const encoded = await text.encode(words.value);
  if (!encoded.ok) return invalid(param, `${param} ${encoded.reason}`);
  const ids = encoded.value.length === 0 && text.beginning !== null ? [text.beginning] : encoded.value;
  if (ids.length === 0) return invalid(param, `${param} has no tokens, and this model has none to begin a text with`);
  const room = positions - ids.length + 1;
  return room < 1
    ? tooLong(String(ids.length))
    : { ...named, text, ids, mostTokens: Math.min(mostTokens ?? room, room) };
}

async function answerCall(
  options: AnswerApiOptions,
  caller: LetIn,
  kind: Kind,
  { body }: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const parsed = parseBody(kind, body);
  if (!parsed.ok) return sendError(reply, parsed.error);
  const { value: asked } = parsed;
  try {
    const found = await begun(options, caller, asked);
    if ('status' in found) return sendError(reply, found);
    const { text, ids, mostTokens, run, step } = found;
    const settle = options.callers.take(caller, ids.length + mostTokens);
    if (typeof settle !== 'function') return sendError(reply, settle);
    const work = new AbortController();
    let writing: AnswerText | null = null;
    const over = (): void => {
      work.abort();
      settle(writing?.usage.total_tokens ?? 0);
    };
    whenClosed(reply, over);
    const { temperature, topP, stops } = asked;
    const seed = asked.seed ?? randomInt(MOST_SEED);
    const question = { from: caller.who, run, step, ids, mostTokens, temperature, topP, seed, ends: text.ends };
    const answer = await options.answerer.answer(question, work.signal);
    if (!answer.ok) return sendError(reply, refusalError(answer.refusal, step));
    if (answer.promise) {
      reply.header('x-shoal-first-token-seconds', answer.promise.firstTokenSeconds.toFixed(2));
      reply.header('x-shoal-tokens-per-second', answer.promise.tokensPerSecond.toFixed(2));
    }
    writing = new AnswerText({ text, ids, stops }, answer.tokens);
    const form = { ...asked, kind };
    if (!asked.stream) return reply.send(await wholeAnswer(form, writing));
    return reply
      .type('text/event-stream')
      .header('cache-control', 'no-cache')
      .header('x-accel-buffering', 'no')
      .send(Readable.from(stream(answerEvents(form, writing), over), { objectMode: false }));
  } catch (error) {
    const known = faultError(error);
    if (known === null) throw error;
    return sendError(reply, known);
  }
}

/** Once it has begun there is no other status any more: what goes wrong is an event. */
async function* stream(events: AsyncIterable<string>, over: () => void): AsyncGenerator<string> {
  try {
    yield* events;
    yield event('[DONE]');
  } catch (error) {
    yield event(errorBody(faultError(error) ?? serverError(500, NOT_THIS_TIME)));
  } finally {
    over();
  }
}

/** Null: nobody was prepared for it. */
function faultError(error: unknown): ApiError | null {
  if (error instanceof AnswerFault) return serverError(500, error.message);
  return error instanceof TokenizerFault ? serverError(500, 'the tokenizer of this model cannot be used') : null;
}

function refusalError(refusal: AnswerRefusal, step: number | null): ApiError {
  switch (refusal.of) {
    case 'busy':
      return tooMany('requests', 'as many are being answered as can be: try again later', refusal.retrySeconds);
    case 'notThere':
      return step === null
        ? serverError(503, refusal.sentence)
        : invalid('model', refusal.sentence, 'model_not_found', 404);
    case 'tooLarge':
      return invalid('model', refusal.sentence, 'model_too_large');
    default:
      return assertNever(refusal);
  }
}
