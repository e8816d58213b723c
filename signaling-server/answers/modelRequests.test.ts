/** A file of requests: what is refused of it, when each is sent, and what becomes of one that there is no place for. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { ModelRequests, readModelRequests } from './modelRequests.ts';

const folder = mkdtempSync(join(tmpdir(), 'shoal-requests-'));
const path = join(folder, 'requests.jsonl');
afterAll(() => rmSync(folder, { recursive: true }));

const LINE = { id: 'a', atStep: 1, model: 'tiny', prompt: 'Call' };
const lines = (...objects: unknown[]): string => objects.map((object) => JSON.stringify(object)).join('\n');
const reasonFor = async (text: string): Promise<string> => {
  writeFileSync(path, text);
  const read = await readModelRequests(path, 'tiny');
  return read.ok ? 'read' : read.reason.replace(path, 'FILE');
};

describe('a file', () => {
  it('that is none is refused by its line and field', async () => {
    expect(await reasonFor(`${lines(LINE, { ...LINE, id: 2, max_tokens: 3 })}\n\n`)).toBe('read');
    expect(await reasonFor(lines(LINE, { ...LINE, id: 'b', n: 2 }))).toMatch(/^FILE line 2: n is not done here/);
    expect(await reasonFor(lines({ ...LINE, atStep: undefined }))).toMatch(/^FILE line 1: atStep is missing/);
    expect(await reasonFor(lines({ ...LINE, atStep: 1.5 }))).toMatch(/^FILE line 1: atStep /);
    expect(await reasonFor(lines({ ...LINE, id: undefined }))).toMatch(/^FILE line 1: id must be a text or a number/);
    expect(await reasonFor(lines({ ...LINE, prompt: undefined }))).toBe('FILE line 1: prompt is missing');
    expect(await reasonFor(lines({ ...LINE, max_tokens: 'x' }))).toMatch(/^FILE line 1: max_tokens /);
    expect(await reasonFor(lines(LINE, LINE))).toMatch(/^FILE line 2: id "a" is another line’s already/);
    expect(await reasonFor(`${lines(LINE)}\n{`)).toMatch(/^FILE line 2: is not valid JSON/);
    expect(await reasonFor('\n')).toMatch(/^FILE has no line/);
    const gone = await readModelRequests(join(folder, 'gone.jsonl'), 'tiny');
    expect(gone.ok ? '' : gone.reason).toContain('gone.jsonl: there is no such file');
  });

  it('ask the run’s own model where they name none', async () => {
    const path = join(folder, 'unnamed.jsonl');
    writeFileSync(path, lines({ id: 1, atStep: 0, prompt: 'Call' }));
    const read = await readModelRequests(path, 'tiny');
    expect(read).toEqual({ ok: true, value: [{ id: 1, atStep: 0, body: { model: 'tiny', prompt: 'Call' } }] });
  });
});

const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`;
const SHOAL = { fromStep: 2, toStep: 4, donors: 1 };
const ANSWER = [
  event({ choices: [{ text: 'me ', finish_reason: null }], usage: null }),
  event({ choices: [{ text: 'Ishmael', finish_reason: null }], usage: null }),
  event({ choices: [{ text: '', finish_reason: 'stop' }], usage: null, shoal: SHOAL }),
  event({ choices: [], usage: { prompt_tokens: 4, completion_tokens: 9, total_tokens: 13 }, shoal: SHOAL }),
  'data: [DONE]\n\n',
];

interface Heard {
  readonly authorization: string | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Answers each call with the next of these, and all others with the last one. */
class FakeServer {
  readonly heard: Heard[] = [];
  answers: ((response: ServerResponse) => void)[] = [];
  #server: Server | null = null;
  url = '';

  async open(): Promise<void> {
    const server = createServer((request, response) => void this.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    invariant(typeof address === 'object' && address !== null, 'it listens');
    this.url = `http://127.0.0.1:${address.port}`;
    this.#server = server;
  }

  donorUrl(): string {
    return `${this.url}/#own=secret`;
  }

  close(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const piece of request.setEncoding('utf8')) text += piece;
    this.heard.push({ authorization: request.headers.authorization, body: JSON.parse(text) });
    const answer = this.answers.length > 1 ? this.answers.shift() : this.answers[0];
    answer?.(response);
  }
}

const server = new FakeServer();
beforeAll(() => server.open());
afterAll(() => server.close());
afterEach(() => {
  server.heard.length = 0;
});

const inPieces = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  // Wherever the network cuts it.
  for (const piece of ANSWER.join('').match(/[\s\S]{1,17}/g) ?? []) response.write(piece);
  response.end();
};
const refusing =
  (status: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) =>
    void response.writeHead(status, headers).end('{}');

async function requestsIn(...objects: object[]): Promise<ModelRequests> {
  writeFileSync(path, lines(...objects));
  const read = await readModelRequests(path, 'tiny');
  invariant(read.ok, read.ok ? '' : read.reason);
  return new ModelRequests(read.value);
}

describe('requests', () => {
  it('are sent once, when their step is announced, and answered in the file’s order', async () => {
    server.answers = [inPieces];
    const requests = await requestsIn(
      { ...LINE, atStep: 90 },
      { ...LINE, id: 7, stream: false },
      { ...LINE, id: 'c', atStep: 3 },
    );
    requests.stepAnnounced(server, 0);
    requests.stepAnnounced(server, 2);
    requests.stepAnnounced(server, 2);
    await expect.poll(() => server.heard.length).toBe(1);
    const answers = await requests.finish(server);
    expect(server.heard).toHaveLength(3);
    expect(server.heard[0]).toEqual({
      authorization: 'Bearer secret',
      body: { model: 'tiny', prompt: 'Call', stream: true, stream_options: { include_usage: true } },
    });
    expect(answers.map(({ id }) => id)).toEqual(['a', 7, 'c']);
    expect(answers[1]).toEqual({
      ...{ id: 7, status: 200, text: 'me Ishmael', finishReason: 'stop', promptTokens: 4, completionTokens: 9 },
      ...{ firstTokenSeconds: expect.any(Number), seconds: expect.any(Number), fromStep: 2, toStep: 4 },
    });
  });

  it('are sent again where there is no place, or the answer is lost; what is refused is not', async () => {
    server.answers = [
      refusing(429, { 'retry-after': '0' }),
      (response) => void response.destroy(),
      (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(ANSWER[0], () => response.destroy());
      },
      inPieces,
    ];
    const [answer] = await (await requestsIn(LINE)).finish(server);
    expect(server.heard).toHaveLength(4);
    expect(answer).toMatchObject({ status: 200, text: 'me Ishmael' });
    server.answers = [refusing(400)];
    const [refused] = await (await requestsIn(LINE)).finish(server);
    expect(refused).toMatchObject({ id: 'a', status: 400, text: null, finishReason: null, toStep: null });
  });

  it('whose stream ends with an error have no answer', async () => {
    server.answers = [
      (response) => void response.writeHead(200).end(`${ANSWER[0]}${event({ error: { message: 'x' } })}`),
    ];
    const [answer] = await (await requestsIn(LINE)).finish(server);
    expect(answer).toMatchObject({ status: 500, text: null });
  });
});
