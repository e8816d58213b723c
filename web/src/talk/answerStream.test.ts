/** Server-sent events as they come in pieces of any size, and what each says. */

import { afterEach, expect, it } from 'vitest';
import { arrayOf } from '../../../swarm/base.ts';
import { type AnswerTold, askModel, takeEvents, toldBy } from './answerStream.ts';

const chunk = (text: string, finish: string | null = null, rest: object = {}): string =>
  JSON.stringify({ id: 'c', choices: [{ index: 0, text, logprobs: null, finish_reason: finish }], ...rest });
const ORIGIN = { fromStep: 3, toStep: 4, donors: 2 };
const STREAM = [chunk('Hé'), chunk(' ho'), chunk('', 'stop', { shoal: ORIGIN }), '[DONE]']
  .map((data) => `data: ${data}\n\n`)
  .join('');
const TOLD: readonly AnswerTold[] = [
  { type: 'wrote', text: 'Hé' },
  { type: 'wrote', text: ' ho' },
  { type: 'whole', origin: ORIGIN, finish: 'stop' },
];

it('an event is taken when it is whole, by whichever ends of lines', () => {
  expect(takeEvents('data: a\n\ndata: b')).toEqual({ events: ['a'], rest: 'data: b' });
  expect(takeEvents('data:a\r\n\r\n: a comment\n\nevent: x\ndata: b\ndata: c\n\n')).toEqual({
    ...{ events: ['a', 'b\nc'], rest: '' },
  });
});

it('a chunk of a chat says the same as one of a text; its role says nothing', () => {
  const chat = (delta: object): string => JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] });
  expect(toldBy(chat({ role: 'assistant', content: '' }))).toEqual([]);
  expect(toldBy(chat({ content: 'Hi' }))).toEqual([{ type: 'wrote', text: 'Hi' }]);
  expect(toldBy(JSON.stringify({ choices: [], usage: {} }))).toEqual([]);
});

it('what goes wrong within a stream is a failure, and so is what is no chunk', () => {
  const error = { message: 'the process ended', type: 'server_error', param: null, code: null };
  expect(toldBy(JSON.stringify({ error }))).toMatchObject([
    { type: 'failed', failure: { status: 500, message: 'the process ended' } },
  ]);
  for (const data of ['{', '{}', '"a"']) expect(toldBy(data)).toMatchObject([{ type: 'failed' }]);
});

const { fetch: realFetch } = globalThis;
afterEach(() => {
  globalThis.fetch = realFetch;
});

async function toldFor(response: () => Promise<Response>): Promise<readonly AnswerTold[]> {
  globalThis.fetch = response;
  const told: AnswerTold[] = [];
  for await (const each of askModel('/talk/completions', {}, new AbortController().signal)) told.push(each);
  return told;
}
const inPieces = (text: string, size: number): Response => {
  const bytes = new TextEncoder().encode(text);
  const pieces = arrayOf(Math.ceil(bytes.length / size), (index) => bytes.slice(index * size, (index + 1) * size));
  return new Response(
    new ReadableStream({
      start: (controller) => {
        for (const piece of pieces) controller.enqueue(piece);
        controller.close();
      },
    }),
  );
};

it.each([1, 2, 7, 10_000])('an answer that comes by %i bytes is the same', async (size) => {
  expect(await toldFor(async () => inPieces(STREAM, size))).toEqual(TOLD);
});

it('a stream that ends too early has broken off', async () => {
  const [beginning = ''] =
    STREAM.split('data: [DONE]')[0]?.split(`data: ${chunk('', 'stop', { shoal: ORIGIN })}`) ?? [];
  expect(await toldFor(async () => inPieces(beginning, 5))).toEqual([
    ...TOLD.slice(0, 2),
    { type: 'failed', failure: { status: 500, code: null, type: null, message: '', retrySeconds: null } },
  ]);
});

it('a refusal says why, and when to ask again', async () => {
  const error = { message: 'as many as can be', type: 'requests', param: null, code: 'rate_limit_exceeded' };
  const busy = (): Promise<Response> =>
    Promise.resolve(new Response(JSON.stringify({ error }), { status: 429, headers: { 'retry-after': '5' } }));
  expect(await toldFor(busy)).toEqual([
    {
      type: 'failed',
      failure: {
        ...{ status: 429, type: 'requests', code: 'rate_limit_exceeded' },
        ...{ message: 'as many as can be', retrySeconds: 5 },
      },
    },
  ]);
  const bare = await toldFor(async () => new Response('gone', { status: 502 }));
  expect(bare).toMatchObject([{ type: 'failed', failure: { status: 502, retrySeconds: null } }]);
});

it('a server that is not reached is said to be; after a stop nothing is', async () => {
  const lost = (): Promise<Response> => Promise.reject(new TypeError('network'));
  expect(await toldFor(lost)).toMatchObject([{ type: 'failed', failure: { status: 0 } }]);
  globalThis.fetch = lost;
  const work = new AbortController();
  work.abort();
  const told: AnswerTold[] = [];
  for await (const each of askModel('/talk/completions', {}, work.signal)) told.push(each);
  expect(told).toEqual([]);
});
