/** What the page `/talk` may ask, by whom and how often, through real servers. */
import type { FastifyRequest } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { talkFactsSchema } from '../../swarm/messages/talk.ts';
import { ApiCallers } from '../answers/apiCallers.ts';
import { ApiKeys } from '../answers/apiKeys.ts';
import type { Server, ServerOptions } from '../server.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';

const INVITE = 'sesame';
const servers = new TinyServers({ steps: 1 });
afterAll(() => servers.close());

const QUESTION = { model: 'tiny', prompt: 'Call', max_tokens: 8, temperature: 0 };

const post = (server: Server, path: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: server.url, ...headers },
    body: JSON.stringify(body),
  });
const asked = (server: Server, body: object = QUESTION, query = ''): Promise<Response> =>
  post(server, `/talk/completions${query}`, body);
const statusOf = async (server: Server, query = '') =>
  (await (await fetch(`${server.url}/api/status${query}`)).json()) as { mayTalk?: true; run?: string };
const factsOf = async (server: Server) => talkFactsSchema.parse(await (await fetch(`${server.url}/api/talk`)).json());

async function refusal(answer: Promise<Response>): Promise<readonly unknown[]> {
  const response = await answer;
  return [response.status, ((await response.json()) as { error: { code: string } }).error.code];
}

/** Each of the run `tiny`, in one data directory. */
const serve = (options: Partial<ServerOptions> = {}): Promise<Server> => servers.serve(options);

describe('where others need a key', () => {
  let server: Server;
  beforeAll(async () => {
    servers.writeRun(tinyRunFile({ steps: 1, name: 'other' }));
    await (await serve()).close();
    servers.writeRun(tinyRunFile({ steps: 1 }));
    server = await serve();
  });

  it('the page asks without one, and has the answer that a key gets', async () => {
    expect((await post(server, '/v1/completions', QUESTION)).status).toBe(401);
    const [, ownKey = ''] = server.ownDonorUrl.split('#own=');
    const known = await post(server, '/v1/completions', QUESTION, { authorization: `Bearer ${ownKey}` });
    const answer = await asked(server);
    expect([answer.status, known.status]).toEqual([200, 200]);
    const [said, expected] = [await answer.json(), await known.json()];
    expect(said.choices).toEqual(expected.choices);
    expect(said).toMatchObject({ usage: { completion_tokens: 8 }, shoal: { fromStep: 0, toStep: 0, donors: 0 } });
  });

  it('an answer streams', async () => {
    const whole = await (await asked(server)).json();
    const stream = await asked(server, { ...QUESTION, stream: true });
    expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const chunks = (await stream.text()).split('\n\n').filter((line) => line.startsWith('data: {'));
    const texts = chunks.map((chunk) => JSON.parse(chunk.slice('data: '.length)).choices[0].text);
    expect(texts.join('')).toBe(whole.choices[0].text);
  });

  it('it is told what there is to ask, and the pages that they may link to it', async () => {
    expect(await factsOf(server)).toEqual({
      ...{
        run: 'tiny',
        committedSteps: 0,
        steps: 1,
        checkpoints: [0],
        wasTrained: false,
        positions: 16,
        reads: 'text',
        isOff: false,
      },
      // Embeddings of 256 tokens and 16 positions, two layers of width 8, and the last norm.
      parameters: 8 * 256 + 8 * 16 + 2 * (12 * 8 * 8 + 13 * 8) + 2 * 8,
    });
    expect((await statusOf(server)).mayTalk).toBe(true);
  });

  it('it asks the active run and its saved states, and no other run', async () => {
    expect((await asked(server, { ...QUESTION, model: 'tiny@0' })).status).toBe(200);
    for (const model of ['other', 'other@0', 'tiny@1'])
      expect(await refusal(asked(server, { ...QUESTION, model }))).toEqual([404, 'model_not_found']);
  });

  it('a page of another site asks nothing', async () => {
    const answer = post(server, '/talk/completions', QUESTION, { origin: 'https://evil.example' });
    expect(await refusal(answer)).toEqual([403, 'foreign_page']);
  });

  it('a model without a template refuses turns, as with a key', async () => {
    const messages = [{ role: 'user', content: 'Hello' }];
    const answer = post(server, '/talk/chat/completions', { model: 'tiny', messages });
    expect(await refusal(answer)).toEqual([400, 'no_chat_template']);
  });
});

it('where nobody may ask, the page neither, and no page links to it', async () => {
  const server = await serve({ api: 'off' });
  expect(await refusal(asked(server))).toEqual([403, 'api_off']);
  expect((await factsOf(server)).isOff).toBe(true);
  expect(await statusOf(server)).not.toHaveProperty('mayTalk');
});

it('of a run by invitation who is invited talks, and others where its operator shows what it writes', async () => {
  const hidden = await serve({ invite: INVITE });
  expect(await refusal(asked(hidden))).toEqual([403, 'notInvited']);
  expect((await fetch(`${hidden.url}/api/talk`)).status).toBe(403);
  expect((await asked(hidden, QUESTION, `?invite=${INVITE}`)).status).toBe(200);
  expect((await statusOf(hidden, `?invite=${INVITE}`)).mayTalk).toBe(true);
  const half = await serve({ invite: INVITE, publicView: 'status' });
  expect(await refusal(asked(half))).toEqual([403, 'notInvited']);
  expect(await statusOf(half)).toMatchObject({ run: 'tiny' });
  expect(await statusOf(half)).not.toHaveProperty('mayTalk');
  const shown = await serve({ invite: INVITE, publicView: 'samples' });
  expect((await asked(shown)).status).toBe(200);
});

it('an address has as much by the page as anyone has where no key is needed, counted together', async () => {
  const { store } = await servers.data();
  const callers = new ApiCallers({ mode: 'open', keys: new ApiKeys(store), ownKey: 'own' });
  const from = (ip: string): FastifyRequest => ({ ip, headers: {} }) as FastifyRequest;
  const here = callers.letInFromPage(from('203.0.113.1'), 'tiny');
  const beside = callers.letIn(from('203.0.113.1'));
  if ('status' in here || 'status' in beside) return expect.fail('both are let in');
  expect(callers.take(here, 30_000)).toBeTypeOf('function');
  expect(callers.take(beside, 20_000)).toBeTypeOf('function');
  for (const one of [here, beside]) expect(callers.take(one, 1)).toMatchObject({ status: 429, type: 'tokens' });
  const elsewhere = callers.letInFromPage(from('203.0.113.2'), 'tiny');
  if ('status' in elsewhere) return expect.fail('it is let in');
  expect(callers.take(elsewhere, 50_000)).toBeTypeOf('function');
  // Two calls have no answer yet.
  for (let calls = 2; calls < 16; calls++)
    expect(callers.letInFromPage(from('203.0.113.1'), 'tiny')).not.toHaveProperty('status');
  expect(callers.letInFromPage(from('203.0.113.1'), 'tiny')).toMatchObject({ status: 429, type: 'requests' });
});
