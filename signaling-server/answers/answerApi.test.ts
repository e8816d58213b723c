/** `/v1/…` over a port of its own: who may ask, chats, streams that break or that nobody reads, and what ends the work. */

import { hash } from 'node:crypto';
import { connect } from 'node:net';
import type { FastifyInstance } from 'fastify';
import OpenAI from 'openai';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { invariant, success } from '../../swarm/base.ts';
import { application } from '../http/application.ts';
import { addRun } from '../store/dataDirectory.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import type { ChatText } from '../texts/chatText.ts';
import { addAnswerApi } from './answerApi.ts';
import { type AnsweredToken, type Answerer, AnswerFault, type AnswerRefusal, type Question } from './answerer.ts';
import { ApiCallers } from './apiCallers.ts';
import { ApiKeys } from './apiKeys.ts';
import { RunTexts } from './runTexts.ts';

const OWN_KEY = 'the key of who opened it';
const JSON_TYPE = { 'content-type': 'application/json' };

/** Answers what it is told to: a byte each, as long as the signal holds. */
class FakeAnswerer implements Answerer {
  readonly questions: Question[] = [];
  refusal: AnswerRefusal | null = null;
  text = 'hello';
  /** After its text it throws this, or waits for the end of the signal. */
  after: 'end' | 'fault' | 'wait' = 'end';
  aborted = 0;
  made = 0;

  async answer(question: Question, signal: AbortSignal) {
    this.questions.push(question);
    signal.addEventListener('abort', () => {
      this.aborted++;
    });
    if (this.refusal !== null) return { ok: false as const, refusal: this.refusal };
    const promise = { firstTokenSeconds: 1.25, tokensPerSecond: 4 };
    return { ok: true as const, tokens: this.#tokens(signal), promise };
  }

  async *#tokens(signal: AbortSignal): AsyncGenerator<AnsweredToken> {
    for (const token of Buffer.from(this.text)) {
      this.made++;
      yield { token, fromStep: 4, toStep: 4 + this.made, donors: 3 };
    }
    if (this.after === 'fault') throw new AnswerFault('the donor of stage 1 left');
    if (this.after === 'wait') await new Promise((resolve) => signal.addEventListener('abort', resolve));
  }
}

/** Joins what is said. */
const chat: ChatText = (messages) =>
  success(`${messages.map(({ role, content }) => `${role}:${content}`).join('|')}|`.slice(0, 12));

const opened: { close(): unknown }[] = [];
afterEach(async () => {
  vi.useRealTimers();
  for (const each of opened.splice(0).reverse()) await each.close();
});

class ChatTexts extends RunTexts {
  override async of(run: string) {
    return { ...(await super.of(run)), chat };
  }
}

async function serve(mode: 'off' | 'keys' | 'open' = 'open', Texts: typeof RunTexts = ChatTexts) {
  const servers = new TinyServers({ steps: 1 });
  opened.push(servers);
  const data = await servers.data();
  const added = await addRun(data, servers.runPath);
  invariant(added.ok, 'the run is there');
  const app: FastifyInstance = application({}, 'localhost');
  const answerer = new FakeAnswerer();
  const keys = new ApiKeys(data.store);
  const texts = new Texts(data);
  const callers = new ApiCallers({ mode, keys, ownKey: OWN_KEY });
  addAnswerApi(app, { store: data.store, texts, answerer, callers });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  opened.push(app);
  const post = (body: object, key?: string): Promise<Response> =>
    fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { ...JSON_TYPE, ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      body: JSON.stringify({ model: 'tiny', prompt: 'abc', ...body }),
    });
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: '-', maxRetries: 0 });
  return { url, answerer, keys, post, openai, store: data.store };
}

/** Each token is so long that a few hundred are more than the system holds between a server and a reader. */
class LongTexts extends RunTexts {
  override async of(run: string) {
    const text = await super.of(run);
    return { ...text, added: async (_given: readonly number[], { length }: readonly number[]) => LONG.repeat(length) };
  }
}
const LONG = 'x'.repeat(50_000);

const errorIn = async (response: Response) =>
  ((await response.json()) as { error: { message: string; type: string; param: string | null; code: string | null } })
    .error;

describe('a chat', () => {
  const messages = [{ role: 'user' as const, content: [{ type: 'text' as const, text: 'hi' }] }];

  it('is rendered whole and answered, whole and as it comes', async () => {
    const { openai, answerer } = await serve();
    const whole = await openai.chat.completions.create({ model: 'tiny', messages });
    expect(whole).toMatchObject({
      ...{ object: 'chat.completion', usage: { prompt_tokens: 8, completion_tokens: 5, total_tokens: 13 } },
      choices: [{ index: 0, message: { role: 'assistant', content: 'hello', refusal: null }, finish_reason: 'length' }],
      shoal: { fromStep: 4, toStep: 9, donors: 3 },
    });
    expect(Buffer.from(answerer.questions[0]?.ids ?? []).toString()).toBe('user:hi|');
    // 16 positions, of which the prompt has 8: the last token is never read.
    expect(answerer.questions[0]?.mostTokens).toBe(9);
    const { response } = await openai.chat.completions.create({ model: 'tiny', messages }).withResponse();
    const promised = ['first-token-seconds', 'tokens-per-second'].map((name) =>
      response.headers.get(`x-shoal-${name}`),
    );
    expect(promised).toEqual(['1.25', '4.00']);
    const stream = await openai.chat.completions.create({
      ...{ model: 'tiny', messages, max_completion_tokens: 3, stop: ['lo'] },
      ...{ stream: true, stream_options: { include_usage: true } },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    expect(answerer.questions[2]?.mostTokens).toBe(3);
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' });
    expect(chunks.map(({ choices: [choice] }) => choice?.delta.content ?? '').join('')).toBe('hel');
    expect(chunks.at(-2)?.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' });
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 5 }, shoal: { donors: 3 } });
  });
});

describe('a stream', () => {
  it('has events that each end with a blank line, and [DONE] as the last', async () => {
    const { post, answerer } = await serve();
    answerer.text = 'a\n\nb';
    const response = await post({ stream: true });
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const events = (await response.text()).split('\n\n');
    expect(events.at(-1)).toBe('');
    expect(events.at(-2)).toBe('data: [DONE]');
    const parsed = events.slice(0, -2).map((event) => JSON.parse(event.replace(/^data: /, '')));
    expect(parsed.map(({ choices: [choice] }) => choice.text).join('')).toBe('a\n\nb');
  });

  it('that breaks off ends with an error, which the client throws', async () => {
    const { post, answerer, openai } = await serve();
    answerer.after = 'fault';
    const text = await (await post({ stream: true })).text();
    expect(text).toMatch(/\n\ndata: \{"error":\{"message":"the donor of stage 1 left",[^\n]*\}\}\n\n$/);
    const read = async () => {
      const stream = await openai.completions.create({ model: 'tiny', prompt: 'a', stream: true });
      for await (const _ of stream);
    };
    await expect(read()).rejects.toThrow('the donor of stage 1 left');
    const whole = await post({});
    expect([whole.status, (await errorIn(whole)).type]).toEqual([500, 'server_error']);
  });

  it('whose reader goes ends the work at once, and so does a whole answer’s', async () => {
    const { post, answerer, url } = await serve();
    answerer.after = 'wait';
    const response = await post({ stream: true });
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    await vi.waitUntil(() => answerer.aborted === 1);
    const leaving = new AbortController();
    const body = JSON.stringify({ model: 'tiny', prompt: 'abc' });
    const call = fetch(`${url}/v1/completions`, { method: 'POST', headers: JSON_TYPE, body, signal: leaving.signal });
    await vi.waitUntil(() => answerer.questions.length === 2);
    leaving.abort();
    await expect(call).rejects.toThrow();
    await vi.waitUntil(() => answerer.aborted === 2);
  });

  it('that nobody reads is not written ahead', async () => {
    const { answerer, url } = await serve('open', LongTexts);
    answerer.text = 'x'.repeat(2_000);
    const body = JSON.stringify({ model: 'tiny', prompt: 'abc', stream: true });
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    socket.pause();
    let before = -1;
    await vi.waitUntil(
      () => {
        const stands = answerer.made > 0 && answerer.made === before;
        before = answerer.made;
        return stands;
      },
      { interval: 300, timeout: 60_000 },
    );
    expect(answerer.made).toBeLessThan(1_000);
    socket.destroy();
    await vi.waitUntil(() => answerer.aborted === 1);
  });
});

describe('what is refused by who answers', () => {
  it('comes with the time to wait; past five seconds no client waits unasked', async () => {
    const { post, answerer } = await serve();
    answerer.refusal = { of: 'busy', retrySeconds: 5 };
    const soon = await post({ stream: true });
    expect([soon.status, soon.headers.get('retry-after'), soon.headers.get('x-should-retry')]).toEqual([
      429,
      '5',
      null,
    ]);
    answerer.refusal = { of: 'busy', retrySeconds: 6 };
    const late = await post({});
    expect([late.status, late.headers.get('retry-after'), late.headers.get('x-should-retry')]).toEqual([
      429,
      '6',
      'false',
    ]);
    expect(await errorIn(late)).toMatchObject({ type: 'requests', code: 'rate_limit_exceeded', param: null });
    answerer.refusal = { of: 'tooLarge', sentence: 'it is too large' };
    expect(await errorIn(await post({}))).toMatchObject({ message: 'it is too large', param: 'model' });
    answerer.refusal = { of: 'notThere', sentence: 'it is gone' };
    expect((await post({})).status).toBe(503);
    expect((await post({ model: 'tiny@0' })).status).toBe(404);
  });
});

describe('who may ask', () => {
  it('has a key that is neither made up nor revoked; none of it is in the store', async () => {
    const { post, keys, store, url } = await serve('keys');
    const made = keys.make({ name: 'Ada', tokensAnHour: 1_000 });
    invariant(made.ok, 'it is made');
    const { key } = made.value;
    expect((await post({}, key)).status).toBe(200);
    expect(await errorIn(await post({}))).toMatchObject({ type: 'invalid_request_error', code: null });
    expect((await post({})).status).toBe(401);
    const other = await post({}, `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`);
    expect([other.status, (await errorIn(other)).code]).toEqual([401, 'invalid_api_key']);
    expect((await fetch(`${url}/v1/models`)).status).toBe(401);
    expect((await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
    expect(store.setting('apiKeys')).not.toContain(key.slice(10));
    expect(store.setting('apiKeys')).not.toContain(hash('sha256', key));
    const [kept] = keys.list();
    expect(keys.revoke(kept?.id ?? '')).toEqual(success(null));
    expect((await post({}, key)).status).toBe(401);
    expect(keys.revoke(kept?.id ?? '').ok).toBe(false);
  });

  it('asks for no more tokens an hour than the key has; what was not made counts for nothing', async () => {
    const { post, keys, answerer } = await serve('keys');
    // Nothing but the clock of limits: a real socket lives on real timers.
    vi.useFakeTimers({ toFake: ['performance'] });
    const made = keys.make({ name: 'Ada', tokensAnHour: 30 });
    invariant(made.ok, 'it is made');
    const ask = (most: number): Promise<Response> => post({ max_tokens: most }, made.value.key);
    // Prompt 3 and answer 5 of at most 13.
    for (let times = 0; times < 2; times++) {
      expect((await ask(13)).status).toBe(200);
      await vi.waitUntil(() => answerer.aborted === times + 1);
    }
    const over = await ask(12);
    expect([over.status, (await errorIn(over)).type]).toEqual([429, 'tokens']);
    expect(Number(over.headers.get('retry-after'))).toBeGreaterThan(3_500);
    expect(over.headers.get('x-should-retry')).toBe('false');
    expect((await ask(11)).status).toBe(200);
    vi.advanceTimersByTime(3_660_000);
    expect((await ask(13)).status).toBe(200);
  });

  it('is nobody, or anyone; and always the server’s own command, without a limit', async () => {
    const off = await serve('off');
    expect((await off.post({}, 'x')).status).toBe(403);
    expect((await off.post({}, OWN_KEY)).status).toBe(200);
    const open = await serve('open');
    expect((await open.post({})).status).toBe(200);
    expect((await open.post({}, 'whatever')).status).toBe(200);
  });

  it('has sixteen calls without an answer at most', async () => {
    const { post, answerer } = await serve('open');
    answerer.after = 'wait';
    const streams = await Promise.all(Array.from({ length: 16 }, () => post({ stream: true })));
    expect(streams.map(({ status }) => status)).toEqual(Array(16).fill(200));
    const over = await post({});
    expect([over.status, over.headers.get('retry-after')]).toEqual([429, '1']);
    await streams[0]?.body?.cancel();
    await vi.waitUntil(() => answerer.aborted === 1);
    answerer.after = 'end';
    expect((await post({})).status).toBe(200);
    for (const stream of streams.slice(1)) await stream.body?.cancel();
  });
});

describe('a body', () => {
  it('that is too large, no JSON, no object or of another kind is refused in the same form', async () => {
    const { url } = await serve();
    const post = (body: string, type = 'application/json') =>
      fetch(`${url}/v1/completions`, { method: 'POST', headers: { 'content-type': type }, body });
    for (const [body, status] of [
      [`"${'x'.repeat(6_000_000)}"`, 413],
      ['{', 400],
      ['[]', 400],
      ['"x"', 400],
      ['null', 400],
    ] as const) {
      const refused = await post(body);
      expect([status, refused.status]).toEqual([status, status]);
      expect(await errorIn(refused)).toMatchObject({ type: 'invalid_request_error', param: null });
    }
    expect((await post('a=b', 'application/x-www-form-urlencoded')).status).toBe(415);
    expect((await fetch(`${url}/v1/nothing`)).status).toBe(404);
  });
});
