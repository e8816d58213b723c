/**
 * Who may do what: every HTTP call that the server registers, for everyone who may make it. A route without a row fails;
 * so does a row whose route is gone.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { request } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EXPIRED_SESSION, FourStages, INVITE } from './fourStages.ts';
import { ScriptedDonor } from './scriptedDonor.ts';
import { TinyServers } from './tinyServers.ts';

const registered = new Set<string>();
const listening = (message: unknown): void => {
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) if (each !== 'HEAD' && each !== 'OPTIONS') registered.add(`${each} ${url}`);
  });
};
beforeAll(() => subscribe('fastify.initialization', listening));
afterAll(() => void unsubscribe('fastify.initialization', listening));

/** Calls that become WebSockets. */
const SOCKETS = ['/api/donor', '/api/watch'];
const JSON_TYPE = { 'content-type': 'application/json' };
const KEY = 'a-key-of-a-browser';

/** Who calls. A donor's are named after how far it has come. */
const WHO = [
  ...['nobody', 'guest', 'keyHolder', 'greeted', 'spare', 'member', 'gone'],
  ...['viewer', 'operator', 'loggedOut', 'expired', 'foreignPage', 'foreignHost'],
] as const;
type Who = (typeof WHO)[number];

/** What a call is for, and who may make it; all others are shut out by 401, 403 or 421, whatever else they say. */
interface Row {
  readonly route: string;
  /** Where it differs from the route: with parameters that lead nowhere. */
  readonly path?: string;
  readonly may: readonly Who[];
}

const EVERYONE = WHO.filter((who) => who !== 'foreignHost');
/** A page of another site has no cookie in a browser (SameSite), and could not read the answer: it may change nothing. */
const WATCHERS: readonly Who[] = ['viewer', 'operator', 'foreignPage'];
/** Whatever bearer a call has is the key of somebody. */
const KEY_HOLDERS: readonly Who[] = ['keyHolder', 'greeted', 'spare', 'member', 'gone'];
const ADMITTED: readonly Who[] = ['spare', 'member'];
const STATE = 'GET /api/state/:checkpoint/:block';
const SOME_STATE = '?kind=value&from=0&to=1';
const HASH = 'a'.repeat(64);

/** Of a run by invitation whose operator makes nothing public. */
const INSIDERS: readonly Who[] = ['guest', 'spare', 'member', ...WATCHERS];

const TABLE: readonly Row[] = [
  ...['/', '/operator', '/status', '/talk', '/embed', '/preview.png', '/*', '/healthz', '/readyz'].map((path) => ({
    ...{ route: `GET ${path}`, may: EVERYONE },
  })),
  ...['/metrics', '/api/status', '/api/leaderboard', '/api/run', '/api/runs', '/api/sample', '/api/talk'].map(
    (path) => ({
      ...{ route: `GET ${path}`, may: INSIDERS },
    }),
  ),
  // A page of another site reads nothing, and asks nothing.
  ...['/talk/completions', '/talk/chat/completions'].map((path) => ({
    ...{ route: `POST ${path}`, may: INSIDERS.filter((who) => who !== 'foreignPage') },
  })),
  ...['GET', 'DELETE'].map((method) => ({
    ...{ route: `${method} /api/name`, may: KEY_HOLDERS },
  })),
  { route: 'PUT /api/name', may: ADMITTED },
  { route: 'GET /api/donor', may: EVERYONE.filter((who) => who !== 'foreignPage') },
  { route: 'GET /api/tokens/:hash', path: `/api/tokens/${HASH}`, may: ADMITTED },
  { route: 'GET /api/base/:hash', path: `/api/base/${HASH}`, may: ADMITTED },
  { route: STATE, path: `/api/state/0/layer.0${SOME_STATE}`, may: [] },
  { route: 'PUT /api/state', may: ADMITTED },
  { route: 'PUT /api/evidence', may: ADMITTED },
  { route: 'GET /api/checkpoint', may: ADMITTED },
  { route: 'GET /api/today', may: ADMITTED },
  { route: 'POST /api/operator/login', may: EVERYONE },
  { route: 'GET /api/watch', may: ['viewer', 'operator'] },
  { route: 'GET /api/snapshot', may: WATCHERS },
  // None of them has a key for asking a model.
  ...['GET /v1/*', 'GET /v1/models', 'GET /v1/models/*', 'POST /v1/completions', 'POST /v1/chat/completions'].map(
    (route) => ({
      ...{ route, may: [] },
    }),
  ),
  ...['timeline', 'steps', 'runs', 'models', 'blocks', 'samples', 'card', 'keys'].map((name) => ({
    ...{ route: `GET /api/operator/${name}`, may: WATCHERS },
  })),
  { route: 'GET /api/operator/export', may: ['operator', 'foreignPage'] },
  { route: 'GET /api/operator/webhook', may: ['operator', 'foreignPage'] },
  ...[
    'command',
    'plan',
    'viewer',
    'texts',
    'examples',
    'runs',
    'activate',
    'beside',
    'queue',
    'card',
    'back',
    'keep',
    'samples',
    'alerts',
    'webhook',
    'webhook/try',
    'note',
    'let-go',
    'rehearse',
    'unblock',
    'keys',
    'keys/revoke',
  ].map((name): Row => ({ route: `POST /api/operator/${name}`, may: ['operator'] })),
  // Last: it ends their sessions.
  { route: 'POST /api/operator/logout', may: ['viewer', 'operator'] },
];

const stages = new FourStages();
const headersOf = new Map<Who, Record<string, string>>();

beforeAll(async () => {
  await stages.begin();
  const member = stages.memberAt(0);
  const [greeted, spare, gone] = [await stages.greeted(), await stages.spare(), await stages.spare()];
  gone.leave();
  await gone.closed;
  const operator = { cookie: await stages.logIn(stages.server.operatorToken()) };
  const making = { method: 'POST', headers: { ...operator, origin: stages.server.url, ...JSON_TYPE }, body: '{}' };
  const { token: ticket } = await (await fetch(`${stages.server.url}/api/operator/viewer`, making)).json();
  const loggedOut = { cookie: await stages.logIn(stages.server.operatorToken()) };
  const leaving = { method: 'POST', headers: { ...loggedOut, origin: stages.server.url, ...JSON_TYPE }, body: '{}' };
  await fetch(`${stages.server.url}/api/operator/logout`, leaving);
  const token = (donor: ScriptedDonor): string => `Bearer ${donor.welcome.token}`;
  for (const [who, headers] of Object.entries({
    ...{ nobody: {}, guest: {}, keyHolder: { authorization: `Bearer ${KEY}` } },
    ...{ greeted: { authorization: token(greeted) }, spare: { authorization: token(spare) } },
    ...{ member: { authorization: token(member) }, gone: { authorization: token(gone) } },
    ...{ viewer: { cookie: await stages.logIn(ticket) }, operator, loggedOut },
    expired: { cookie: `shoal_operator=${EXPIRED_SESSION}` },
    foreignPage: { ...operator, origin: 'https://evil.example' },
    foreignHost: { ...operator, authorization: token(member), host: 'evil.example' },
  } satisfies Record<Who, Record<string, string>>))
    headersOf.set(who as Who, headers);
});
afterAll(() => stages.close());

const UPGRADE = {
  ...{ connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
  'sec-websocket-key': 'c2hvYWwgaXMgYSBmaXNoLg==',
};

/** No proxy stands before this one: it looks at the name that it is called by. */
const plain = new TinyServers({ steps: 9 });
let plainUrl = '';
beforeAll(async () => {
  plainUrl = (await plain.serve()).url;
});
afterAll(() => plain.close());

/** What is answered to a call whose body is no sense: whoever may make it is told that, and changes nothing. */
function answered(who: Who, { route, path }: Row): Promise<number> {
  const [method = '', url = ''] = route.split(' ');
  const isBodiless = method === 'GET' || method === 'DELETE';
  const target = `${path ?? url}${who === 'guest' ? `${path?.includes('?') ? '&' : '?'}invite=${INVITE}` : ''}`;
  // Each from an address of its own: nobody is at the limit of another.
  const address = { 'x-forwarded-for': `203.0.113.${WHO.indexOf(who)}` };
  const { host, ...own } = headersOf.get(who) ?? {};
  const headers = {
    ...{ ...address, ...own, ...(host === undefined ? {} : { host }) },
    ...(SOCKETS.includes(url) ? UPGRADE : {}),
    ...(isBodiless ? {} : JSON_TYPE),
    // As a browser's own page says where it is from.
    ...(method === 'GET' || 'origin' in own ? {} : { origin: stages.server.url }),
  };
  return new Promise((resolve, reject) => {
    const to = who === 'foreignHost' ? plainUrl : stages.server.url;
    const call = request(`${to}${target}`, { method, headers, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    call.on('upgrade', (_response, socket) => {
      socket.destroy();
      resolve(101);
    });
    call.on('error', reject).end(isBodiless ? undefined : '[]');
  });
}

const SHUT_OUT = [401, 403, 421];

describe('HTTP', () => {
  test('every route that the server has stands in the table, and no other', () => {
    expect([...registered].toSorted()).toEqual([...new Set(TABLE.map(({ route }) => route))].toSorted());
  });

  describe.each(TABLE)('$route', (row) => {
    test.each(WHO)('%s', async (who) => {
      const status = await answered(who, row);
      expect(status).not.toBe(429);
      if (row.may.includes(who)) expect(SHUT_OUT).not.toContain(status);
      else expect(SHUT_OUT).toContain(status);
      expect(status).toBeLessThan(500);
    });
  });

  test('[WP44] who gets ready reads the state that its part needs, and no other', async () => {
    const servers = new TinyServers({ steps: 9, layers: 2 });
    const { url } = await servers.serve({ stages: 2, expectedDonors: 2, replicas: 0 });
    const donors = [new ScriptedDonor(url), new ScriptedDonor(url)];
    for (const donor of donors) donor.obedient = false;
    for (const donor of donors) {
      const { peer } = await donor.hears('welcome');
      const { plan } = await donor.hears('prepare');
      const stage = plan.stages.findIndex(({ members }) => members.some((member) => member.peer === peer));
      const statuses = [0, 1].map(
        async (layer) => (await donor.fetch(`/api/state/0/layer.${layer}${SOME_STATE}`)).status,
      );
      expect((await Promise.all(statuses)).map((status) => status === 200)).toEqual([stage === 0, stage === 1]);
    }
    await servers.close();
  });
});
