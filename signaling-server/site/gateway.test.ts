/** What a process of a site answers while nobody leads, nor has a donor come. */
import { connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { HUGGING_FACE } from '../http/access.ts';
import { type Front, openFront } from '../http/front.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { type Gateway, openGateway } from './gateway.ts';
import type { Tunnel } from './tunnel.ts';

const NOBODY = 'no process of this site leads at the moment: try again in some seconds';

const role = (name: string, isLed: boolean, isLeading = false) => ({ name, isLed, isLeading, donors: 0 });

let roles = [role('tiny', false)];
let isNatsAway = false;
/** The process that leads dies of the first byte. */
const breaking = (): Duplex => new Duplex({ read() {}, write: (_data, _encoding, done) => done(new Error('gone')) });
let tunnel: () => Duplex | null = () => null;
let isCutOff = false;
let gateway: Gateway;
let front: Front;

beforeEach(async () => {
  roles = [role('tiny', false)];
  isNatsAway = false;
  tunnel = () => null;
  isCutOff = false;
  const room = {
    server: null,
    tunnel: () => tunnel() as Tunnel | null,
    get isCutOff() {
      return isCutOff;
    },
  };
  const rooms = {
    first: room,
    get roles() {
      return roles;
    },
    get isNatsAway() {
      return isNatsAway;
    },
    forCall: (url: string) => (url.includes('run=coming') ? null : room),
    forDonor: (run: string | undefined) => {
      invariant(run === 'coming', 'no other donor comes here');
      return null;
    },
  };
  gateway = await openGateway({
    access: {},
    host: 'localhost',
    pages: undefined,
    embedOn: [],
    hub: HUGGING_FACE,
    rooms,
    malformed: () => 2,
  });
  const opened = await openFront('localhost', 0, {}, gateway.http);
  invariant(opened.ok, 'it listens');
  front = opened.value;
});
afterEach(async () => {
  await gateway.close();
  await front.close();
});

test('a call while nobody leads is answered with 503 and when to come again', async () => {
  for (const path of ['/api/status', '/api/board', '/api/operator/session']) {
    const answer = await fetch(`${front.url}${path}`);
    expect(answer.status, path).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('2');
    expect(await answer.json()).toEqual({ error: NOBODY });
  }
});

test('a call that was under way comes again only where it may be done twice', async () => {
  tunnel = breaking;
  const told = async (method: string, path: string): Promise<unknown> => {
    const answer = await fetch(`${front.url}${path}`, { method, body: method === 'POST' ? '{}' : null });
    return [answer.status, answer.headers.get('retry-after')];
  };
  expect(await told('GET', '/api/status')).toEqual([503, '2']);
  expect(await told('POST', '/api/operator/login?run=tiny')).toEqual([503, '2']);
  expect(await told('POST', '/api/operator/command')).toEqual([503, null]);
  // A page is this process's own then (here it has none): what it shows comes when somebody leads.
  expect(await told('GET', '/operator')).toEqual([404, null]);
});

/** What comes back on a connection, until it ends or has been answered for a while. */
function spoken(text: string): {
  readonly socket: Socket;
  readonly answered: Promise<string>;
  readonly closed: Promise<void>;
} {
  const socket = connect(Number(new URL(front.url).port), 'localhost');
  socket.on('error', () => {}); // the close that follows says it
  const answered = new Promise<string>((resolve) => socket.once('data', (data) => resolve(data.toString('latin1'))));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.write(text);
  return { socket, answered, closed };
}

test('a request that cannot be passed on costs its sender an answer, and no process its life', async () => {
  tunnel = () => new Duplex({ read() {}, write: (_data, _encoding, done) => done() });
  const odd = spoken('GET /api/status HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: x\r\nTrailer: x\r\n\r\n');
  const trailing = spoken('GET /api/status HTTP/1.1\r\nHost: localhost\r\nTrailer: x\r\n\r\n');
  const twice = spoken('POST /api/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTrailer: x\r\n\r\nx');
  await odd.answered;
  expect((await fetch(`${front.url}/healthz`)).status).toBe(200);
  for (const { socket } of [odd, trailing, twice]) socket.destroy();
});

test('[SV36] a body whose call has its answer holds its connection no longer, whoever answered', async () => {
  for (const way of [() => null, breaking]) {
    tunnel = way;
    for (const path of ['/healthz', '/api/operator/login', '/api/operator/command']) {
      const dripping = spoken(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{`);
      expect(await dripping.answered).toMatch(/^HTTP\/1\.1 (404|415|503) /);
      await dripping.closed;
    }
  }
});

test('while NATS is away a page is told so at once, and a donor’s call goes on to wait', async () => {
  let ways = 0;
  tunnel = () => {
    ways += 1;
    return breaking();
  };
  isCutOff = true;
  const told = async (headers: Record<string, string>): Promise<unknown> => {
    const answer = await fetch(`${front.url}/api/snapshot`, { headers });
    return [answer.status, ((await answer.json()) as { error: string }).error];
  };
  const reason = 'this server cannot reach the one that leads, because NATS does not answer: try again in some seconds';
  expect([await told({}), ways]).toEqual([[503, reason], 0]);
  expect([await told({ authorization: 'Bearer of-a-donor' }), ways]).toEqual([[503, reason], 1]);
});

test('a call and a donor for a run that this process is about to open come again', async () => {
  const answer = await fetch(`${front.url}/api/status?run=coming`);
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '2']);
  await new ScriptedDonor(front.url, { run: 'coming' }).closed;
});

test('while nobody leads a process is in order, and not ready', async () => {
  const health = await fetch(`${front.url}/healthz`);
  expect([health.status, await health.json()]).toEqual([200, { ok: true, role: 'gateway' }]);
  const ready = await fetch(`${front.url}/readyz`);
  expect([ready.status, await ready.json()]).toEqual([503, { ok: false, role: 'gateway', reason: NOBODY }]);
  expect(await (await fetch(`${front.url}/metrics`)).text()).toMatch(/^shoal_site_led 0$/m);
});

test('what is not answered for NATS is said to be so', async () => {
  isNatsAway = true;
  tunnel = breaking;
  const NATS = expect.stringMatching(/^this server cannot reach the one that leads, because NATS does not answer/);
  expect(await (await fetch(`${front.url}/readyz`)).json()).toEqual({ ok: false, role: 'gateway', reason: NATS });
  expect(await (await fetch(`${front.url}/api/status`)).json()).toEqual({ error: NATS });
  expect(await (await fetch(`${front.url}/api/status?run=coming`)).json()).toEqual({ error: NATS });
});

test('with several runs a process is ready while any is led, says which are not, and counts each', async () => {
  roles = [role('tiny', false), { ...role('other', true, true), donors: 3 }];
  const ready = await fetch(`${front.url}/readyz`);
  expect([ready.status, await ready.json()]).toEqual([200, { ok: true, role: 'leader', withoutLeader: ['tiny'] }]);
  const metrics = await (await fetch(`${front.url}/metrics`)).text();
  for (const line of [
    'site_led 0',
    'site_leading 1',
    'gateway_donors 3',
    'site_malformed_total 2',
    'run_led{run="tiny"} 0',
    'run_led{run="other"} 1',
  ])
    expect(metrics).toContain(`shoal_${line}\n`);
});
