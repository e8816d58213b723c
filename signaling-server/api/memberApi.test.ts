/** Names, leaderboard, and what a page asks before it joins, through a real server with donors that answer by a script. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { arrayOf, totalOf } from '../../swarm/base.ts';
import { aboutSchema, publicSampleSchema } from '../../swarm/messages/about.ts';
import { type Leaderboard, leaderboardSchema } from '../../swarm/messages/leaderboard.ts';
import { errorOf, OPERATED_STEPS, OperatedServer } from '../testing/operatedServer.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { filesOfTar } from '../texts/tar.ts';

let operated: OperatedServer;
beforeEach(() => {
  operated = new OperatedServer();
});
afterEach(() => operated.close());

const KEY = 'a-key-of-some-browser';
const STEP_TOKENS = 4 * 8;
const RUN_TOKENS = OPERATED_STEPS * STEP_TOKENS;

async function call(method: string, path: string, body?: unknown, key: string | null = KEY): Promise<Response> {
  const { url } = operated.server;
  return fetch(`${url}${path}`, {
    method,
    headers: {
      origin: url,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}
const board = async (key: string | null = KEY): Promise<Leaderboard> =>
  leaderboardSchema.parse(await (await call('GET', '/api/leaderboard', undefined, key)).json());
async function finished(key?: string): Promise<void> {
  const donor = new ScriptedDonor(operated.server.url, { key });
  await donor.hears('standby', ({ state }) => state === 'finished');
}

describe('names', () => {
  it('are nobody’s until they are chosen, count committed work alone, and go without a trace', async () => {
    await operated.serve(null);
    await call('PUT', '/api/name', { name: ' <b>Ada</b>  L. ', team: 'Engines' });
    await finished(KEY);
    const asPagesRead = { headers: { authorization: `Bearer ${KEY}` } };
    const kept = await fetch(`${operated.server.url}/api/name`, asPagesRead);
    expect(await kept.json()).toEqual({ name: '<b>Ada</b> L.', team: 'Engines' });
    const mine = { rank: 1, name: '<b>Ada</b> L.', team: 'Engines', tokens: RUN_TOKENS };
    expect(await board()).toEqual({
      run: 'tiny',
      runTokens: RUN_TOKENS,
      donors: [mine],
      teams: [{ rank: 1, team: 'Engines', donors: 1, tokens: RUN_TOKENS }],
      mine,
    });
    expect((await board('another-key-of-nobody')).mine).toBeNull();
    operated.server.run.sendBack(30);
    expect((await board()).mine?.tokens).toBe(30 * STEP_TOKENS);

    expect(await (await call('DELETE', '/api/name')).json()).toEqual({ name: '', team: '' });
    expect(await board()).toMatchObject({ donors: [], teams: [], mine: null });
    expect(operated.data.store.memberCredit('tiny')).toEqual([]);
  });

  it('chosen while a donor works count from its connection on; what it did before stays nobody’s', async () => {
    await operated.serve(null);
    const donor = new ScriptedDonor(operated.server.url, { key: KEY });
    await donor.hears('committed', ({ step }) => step === 2);
    expect((await board()).donors).toEqual([]);
    await call('PUT', '/api/name', { name: 'Ada', team: '' });
    await donor.hears('standby', ({ state }) => state === 'finished');
    expect((await board()).donors).toEqual([{ rank: 1, name: 'Ada', team: '', tokens: RUN_TOKENS }]);
    expect((await board()).teams).toEqual([]);
  });

  it('go with the operator’s block, and do not come back from there', async () => {
    await operated.serve(null);
    await call('PUT', '/api/name', { name: 'Ada', team: '' });
    const donor = new ScriptedDonor(operated.server.url, { key: KEY });
    await donor.hears('committed', ({ step }) => step === 2);
    const { post } = await operated.logIn();
    await post('/api/operator/let-go', { peer: donor.welcome.peer, how: 'block' });
    expect((await board()).donors).toEqual([]);
    expect(await errorOf(await call('PUT', '/api/name', { name: 'Ada', team: '' }))).toEqual([
      ...[403, 'whoever runs this server has blocked this network address'],
    ]);
  });

  it('a page is told that it comes from a blocked address, until it is let in again', async () => {
    await operated.serve(null);
    const isBlocked = async (): Promise<unknown> => (await (await call('GET', '/api/status')).json()).isBlocked;
    const donor = new ScriptedDonor(operated.server.url, { key: KEY });
    await donor.hears('committed', ({ step }) => step === 2);
    expect(await isBlocked()).toBeUndefined();
    const { get, post } = await operated.logIn();
    await post('/api/operator/let-go', { peer: donor.welcome.peer, how: 'block' });
    expect(await isBlocked()).toBe(true);
    const { blocks } = (await (await get('/api/operator/blocks')).json()) as { blocks: { address: string }[] };
    await post('/api/operator/unblock', { address: blocks[0]?.address });
    expect(await isBlocked()).toBeUndefined();
  });

  it('are refused in words: too long, unseen, empty, from another page, without a key', async () => {
    await operated.serve(null);
    const put = async (body: unknown) => errorOf(await call('PUT', '/api/name', body));
    expect(await put({ name: 'x'.repeat(10_000), team: '' })).toEqual([
      ...[400, 'a name has at most 40 characters, this one has 10,000'],
    ]);
    expect(await put({ name: 'Ada', team: '\u202eevil' })).toEqual([400, expect.stringContaining('cannot be seen')]);
    expect(await put({ name: ' ', team: '' })).toEqual([400, 'a name has at least one character']);
    expect(await put(['Ada'])).toEqual([400, 'expected a name and a team']);
    expect(await errorOf(await call('PUT', '/api/name', { name: 'Ada', team: '' }, null))).toEqual([
      ...[401, 'this call needs the key of a donor'],
    ]);
    const { url } = operated.server;
    const elsewhere = { method: 'DELETE', headers: { origin: 'https://example.org', authorization: `Bearer ${KEY}` } };
    expect((await fetch(`${url}/api/name`, elsewhere)).status).toBe(403);
    expect(operated.data.store.member('')).toBeNull();
  });
});

it('names are each one donor’s: who looks alike is told, and a name that is deleted is free', async () => {
  await operated.serve(null);
  const put = async (name: string, key: string) => (await call('PUT', '/api/name', { name, team: 'x' }, key)).status;
  const [ada, other] = ['the-key-of-ada-is-this', 'the-key-of-another-one'];
  expect(await put('Ada Lovelace', ada)).toBe(200);
  const answer = await call('PUT', '/api/name', { name: 'ada  lovelace', team: '' }, other);
  expect(await errorOf(answer)).toEqual([409, 'somebody has this name already, or one that looks like it']);
  // Wide letters, a ligature's kin, Cyrillic and Greek letters, a digit for a letter.
  for (const name of ['Ａｄａ Lovelace', 'Аda Lovelace', 'Ada Lοvelace', 'AdaL0velace', 'Ada 𝐋ovelace'])
    expect([name, await put(name, other)]).toEqual([name, 409]);
  expect(await put('ADA LOVELACE', ada)).toBe(200);
  expect(await put('Ada Lovelac', other)).toBe(200);
  expect((await call('DELETE', '/api/name', undefined, ada)).status).toBe(200);
  expect(await put('Ada Lovelace', other)).toBe(200);
});

it('a leaderboard of many is not worked out again for each commit', async () => {
  await operated.serve(null);
  const { store } = operated.data;
  const credits = arrayOf(6_000, (number) => ({
    ...{ id: `${number}`, name: `Stranger ${number}`, team: '', tokens: 6_000 - number },
  }));
  let workedOut = 0;
  Object.assign(store, { memberCredit: () => [workedOut++, ...credits].slice(1) });
  const donor = new ScriptedDonor(operated.server.url, { stepMs: 10 });
  await donor.hears('start');
  for (let asked = 0; asked < OPERATED_STEPS; asked++) {
    await donor.until(() => donor.heardCount('committed') > asked);
    expect((await board()).donors).toHaveLength(20);
  }
  expect(workedOut).toBeLessThan(OPERATED_STEPS / 4);
});

it('names are chosen a few a second by all addresses together, donors at work aside', async () => {
  await operated.serve(null, { access: { trustProxy: ['127.0.0.1', '::1'] } });
  const { url } = operated.server;
  const put = async (number: number, key = `the-key-of-stranger-${number}`): Promise<number> => {
    const headers = {
      ...{ origin: url, 'content-type': 'application/json', authorization: `Bearer ${key}` },
      'x-forwarded-for': `203.0.${number >> 8}.${number & 255}`,
    };
    const body = JSON.stringify({ name: `Stranger ${number}`, team: '' });
    return (await fetch(`${url}/api/name`, { method: 'PUT', headers, body })).status;
  };
  const beganMs = performance.now();
  const statuses = await Promise.all(arrayOf(600, (number) => put(number)));
  const seconds = (performance.now() - beganMs) / 1_000;
  expect(statuses.filter((status) => status !== 200 && status !== 429)).toEqual([]);
  // A hundred at once and five a second, and as many of new addresses: on a machine that takes a minute for them that is all.
  const most = 2 * (100 + 5 * (seconds + 1));
  expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(most);
  const donor = new ScriptedDonor(url, { key: KEY, stepMs: 100 });
  await donor.hears('start');
  expect(await put(601, KEY)).toBe(200);
});

describe('of a run by invitation anyone sees what its operator says', () => {
  const paths = ['/api/status', '/api/leaderboard', '/api/run', '/metrics', '/api/sample'];
  const statuses = async (headers: Record<string, string> = {}, query = '') => {
    const answers = await Promise.all(paths.map((path) => fetch(`${operated.server.url}${path}${query}`, { headers })));
    return answers.map(({ status }) => status);
  };
  const phase = async () =>
    ((await (await fetch(`${operated.server.url}/healthz`)).json()) as { phase?: string }).phase;

  it('nothing, where nothing is said; all of it who is invited, computes in it, or has a session', async () => {
    await operated.serve(9, { invite: 'come in' });
    expect(await statuses()).toEqual([403, 403, 403, 403, 403]);
    expect(await phase()).toBeUndefined();
    expect(await statuses({}, '?invite=come%20in')).toEqual([200, 200, 200, 200, 200]);
    const donor = await ScriptedDonor.joined(operated.server.url, { invite: 'come in' });
    expect(await statuses({ authorization: `Bearer ${donor.welcome.token}` })).toEqual([200, 200, 200, 200, 200]);
    await operated.logIn();
    expect(await statuses({ cookie: operated.cookie })).toEqual([200, 200, 200, 200, 200]);
  });

  it('its status; its status and samples', async () => {
    await operated.serve(9, { invite: 'come in', publicView: 'status' });
    expect(await statuses()).toEqual([200, 200, 200, 200, 403]);
    expect(await phase()).toBe('waiting');
  });

  it('its status and samples', async () => {
    await operated.serve(9, { invite: 'come in', publicView: 'samples' });
    expect(await statuses()).toEqual([200, 200, 200, 200, 200]);
  });
});

describe('a page before it joins', () => {
  it('learns what the run is, with the invitation where there is one', async () => {
    await operated.serve(null, { invite: 'come in' });
    expect(await errorOf(await call('GET', '/api/run'))).toEqual([403, expect.stringContaining('by invitation')]);
    const about = aboutSchema.parse(await (await call('GET', '/api/run?invite=come%20in')).json());
    expect(about).toMatchObject({ name: 'tiny', train: { sequenceLength: 8 } });
    expect(about.parameters).toBe(totalOf(operated.server.run.model.blocks, ({ elements }) => elements));
  });

  it('reads what the newest saved state writes, written once', async () => {
    await operated.serve(null);
    const sample = async () => publicSampleSchema.parse(await (await call('GET', '/api/sample')).json()).sample;
    expect(await sample()).toBeNull();
    await finished();
    const [first, second] = await Promise.all([sample(), sample()]);
    expect(first).toMatchObject({ committedSteps: OPERATED_STEPS, prompt: 'The ' });
    expect(first?.text).not.toBe('');
    expect(second).toEqual(first);
    expect(operated.data.store.samples('tiny')).toHaveLength(1);
  });

  it('gets the newest state in a file once it computes, and not before', async () => {
    await operated.serve(null);
    expect((await call('GET', '/api/checkpoint')).status).toBe(401);
    const donor = await ScriptedDonor.joined(operated.server.url);
    const answer = await call('GET', '/api/checkpoint', undefined, donor.welcome.token);
    const files = filesOfTar(Buffer.from(await answer.arrayBuffer()));
    expect([...files.keys()].some((name) => name.endsWith('.safetensors'))).toBe(true);
  });

  it('whoever helped gets it after the end too, by what only its tab knows; nobody else does', async () => {
    await operated.serve(null);
    const donor = new ScriptedDonor(operated.server.url);
    await donor.hears('committed');
    const { peer, resumeKey } = donor.welcome;
    const asked = async (of: string, key: string): Promise<number> =>
      (await call('GET', `/api/checkpoint?peer=${of}`, undefined, key)).status;
    const idle = await ScriptedDonor.joined(operated.server.url, { measures: false });
    await donor.hears('standby', ({ state }) => state === 'finished');
    expect(await asked(peer, 'not-the-key')).toBe(401);
    expect(await asked(idle.welcome.peer, idle.welcome.resumeKey)).toBe(401);
    expect(await asked(peer, resumeKey)).toBe(200);
  });
});
