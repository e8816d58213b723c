/**
 * What a hostile client may try, against a server that trains with an honest donor: whatever it is, the honest donor's
 * commits go on, and nothing is read, written or run that was not offered.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { invariant, peerId } from '../../swarm/base.ts';
import { NO_LIMITS } from '../../swarm/limits.ts';
import type { PeerMessage } from '../../swarm/messages/messages.ts';
import { encodeEnvelope } from '../../swarm/messages/relay.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { PEER_EXAMPLES } from '../../swarm/testing/messageExamples.ts';
import type { Server } from '../server.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';

const SEED = 20_261_121;
const STEPS = 100_000;
const SAMPLES = 4;
const parsed = modelFromConfig(tinyRunFile({ steps: STEPS }).model);
invariant(parsed.ok, 'the model is one');
const MODEL = parsed.value;

let servers: TinyServers;
let server: Server;
let honest: ScriptedDonor;
beforeEach(async () => {
  servers = new TinyServers({ steps: STEPS, samples: SAMPLES });
  // A plan for one: whoever comes later has no place in it, and can hold up nobody by doing nothing.
  const pages = join(servers.folder, 'pages');
  mkdirSync(pages);
  for (const page of ['index', 'operator', 'status']) writeFileSync(join(pages, `${page}.html`), '<!doctype html>');
  server = await servers.serve({ pages, plan: equalSplit(MODEL, SAMPLES, [peerId('first')]) });
  honest = new ScriptedDonor(server.url);
  await honest.hears('committed');
});
afterEach(() => servers.close());

/** The honest donor has so many more steps committed, and was never refused. */
async function commitsGoOn(steps = 10): Promise<void> {
  const { committedSteps } = server.run;
  await server.run.until((run) => run.committedSteps >= committedSteps + steps);
  expect(honest.received.filter(({ type }) => type === 'refused')).toEqual([]);
}

/** A donor that was welcomed and measured, and does nothing by itself. */
async function hostileDonor(): Promise<ScriptedDonor> {
  const donor = new ScriptedDonor(server.url);
  donor.obedient = false;
  await donor.hears('welcome');
  return donor;
}

describe('words', () => {
  test('every message, at a time when nobody asked for it, with one value another one: refused or passed over', async () => {
    const random = fc.sample(fc.tuple(fc.nat(), fc.jsonValue({ maxDepth: 2 })), { seed: SEED, numRuns: 8 });
    for (const example of PEER_EXAMPLES) {
      const bent = random.map(([place, value]) => {
        let at = 0;
        return JSON.stringify(example, (_key, inner: unknown) => (at++ === 1 + (place % 12) ? value : inner));
      });
      const hostile = await hostileDonor();
      for (const text of [JSON.stringify(example), ...bent]) hostile.sayRaw(text);
      hostile.leave();
      await hostile.closed;
    }
    await commitsGoOn();
  });

  test('reports, evaluations and uploads of an epoch or a step to come are refused', async () => {
    const report = PEER_EXAMPLES.find((example) => example.type === 'report');
    invariant(report?.type === 'report', 'there is an example');
    const { epoch, committedSteps } = server.run;
    for (const words of [
      [{ ...report, epoch: epoch + 1, step: committedSteps + 1_000_000 }],
      [{ ...report, epoch: 0xffffffff, step: 0xffffffff }],
      [{ ...report, epoch, step: committedSteps + 1_000_000 }],
      [
        { ...report, epoch, step: 0 },
        { type: 'uploaded', epoch: epoch + 9, step: 1, shards: [] },
      ],
      [{ type: 'evaluated', epoch: epoch + 9, step: committedSteps + 1_000_000, losses: [] }],
    ] as const satisfies readonly (readonly PeerMessage[])[]) {
      const hostile = await hostileDonor();
      for (const word of words) hostile.say(word);
      await hostile.hears('refused');
      await hostile.closed;
    }
    await commitsGoOn();
  });

  test('the report of a step that is over, said again, is passed over', async () => {
    const { epoch, step } = await honest.hears('start', (start) => start.step >= 3);
    honest.say({ ...REPORT_OF_NOTHING, epoch, step: step - 2 });
    await commitsGoOn();
    expect(server.run.snapshot().generation).toBe(0);
  });

  test('signals to nobody, to itself, and as long as may be', async () => {
    const hostile = await hostileDonor();
    for (const to of ['nobody', hostile.welcome.peer, '__proto__', 'x'.repeat(64)])
      for (const data of ['', 'x'.repeat(65_536)]) hostile.say({ type: 'signal', to: peerId(to), epoch: 0, data });
    await commitsGoOn();
    hostile.leave();
  });

  test('[WP41] limits that change without end are told to nobody whom they do not concern', async () => {
    const hostile = await hostileDonor();
    for (let i = 0; i < 150; i++)
      hostile.say({ type: 'limits', limits: { ...NO_LIMITS, downloadBytesPerSecond: 1e6 + i } });
    await commitsGoOn();
    expect(JSON.stringify(honest.received.filter(({ type }) => type === 'limits'))).not.toContain(hostile.welcome.peer);
  });

  test('pings without end, by someone who reads no answer', async () => {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {});
    const closed = new Promise((resolve) => socket.on('close', resolve));
    const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2hvYWwgaXMgYSBmaXNoLg==';
    socket.write(
      `GET /api/donor HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n\r\n`,
    );
    // Final, a ping, masked by nothing, 125 bytes.
    const ping = Buffer.concat([Buffer.from([0x89, 0x80 | 125, 0, 0, 0, 0]), Buffer.alloc(125)]);
    socket.write(Buffer.concat(Array.from({ length: 5_000 }, () => ping)));
    await commitsGoOn(50);
    socket.resume();
    await closed; // by the library, where the answers pile up, else because no hello came
    await commitsGoOn();
  });

  test('relayed frames to names that nobody has leave nothing behind', async () => {
    const hostile = await hostileDonor();
    for (let i = 0; i < 2_000; i++) hostile.sayRaw(encodeEnvelope('frame', peerId(`nobody-${i}`), new Uint8Array(32)));
    await hostile.hearsBytes();
    await commitsGoOn();
    hostile.leave();
  });
});

const REPORT_OF_NOTHING = {
  type: 'report' as const,
  ...{ losses: [], shards: [], bytesDirect: 0, bytesRelayed: 0, spans: [] },
};

/** A request as it is written, byte for byte, and what is answered until the connection ends. */
function rawRequest(head: string): Promise<string> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    let answer = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text;
    });
    socket.on('error', () => resolve(answer));
    socket.on('close', () => resolve(answer));
    socket.write(head);
  });
}

const CLIMBS = [
  '..%2f..%2f..%2f..%2f..%2fetc%2fpasswd',
  '../../../../etc/passwd',
  '..%5c..%5cetc%5cpasswd',
  '%2e%2e/%2e%2e/%2e%2e/etc/passwd',
  '....//....//etc/passwd',
  '%00',
  'shoal.sqlite%00.html',
  '%c0%ae%c0%ae/etc/passwd',
  '.%2fshoal.sqlite',
  `${'a/'.repeat(2_000)}x`,
  'x'.repeat(10_000),
];

describe('HTTP', () => {
  test('no path of any route leads out of what is offered', async () => {
    const { token } = honest.welcome;
    const routes = [
      '/',
      '/assets/',
      '/operator/',
      '/api/tokens/',
      '/api/state/',
      '/api/state/0/',
      '/api/operator/',
      '/api/operator/export?run=',
      '/api/operator/timeline?step=',
    ];
    for (const route of routes)
      for (const climb of CLIMBS) {
        const answer = await rawRequest(
          `GET ${route}${climb} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
        );
        expect(answer, `${route}${climb}`.slice(0, 80)).toMatch(/^HTTP\/1.1 4\d\d /);
        expect(answer).not.toMatch(/root:|SQLite/);
      }
    await commitsGoOn();
  });

  test('requests that are none, or two in one', async () => {
    for (const head of [
      'GET\r\n\r\n',
      '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
      'GET / HTTP/9.9\r\n\r\n',
      `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'y'.repeat(100_000)}\r\n\r\n`,
      'PUT /api/state HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n',
      'POST /api/operator/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n',
      'GET /api/donor HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n',
    ])
      expect(await rawRequest(head), head.slice(0, 60)).toMatch(/^(HTTP\/1.1 [45]\d\d |$)/);
    await commitsGoOn();
  });

  test('bodies that are no JSON, or no object, or too large', async () => {
    for (const path of ['/api/operator/login', '/api/operator/command', '/api/operator/runs', '/api/name'])
      for (const body of ['{', 'null', '[]', '"x"', '{"__proto__":{"token":"x"}}', `"${'x'.repeat(100_000)}"`]) {
        const method = path === '/api/name' ? 'PUT' : 'POST';
        const headers = { 'content-type': 'application/json', origin: server.url };
        const { status } = await fetch(`${server.url}${path}`, { method, body, headers });
        expect(status, `${path} ${body.slice(0, 20)}`).toBeGreaterThanOrEqual(400);
        expect(status, `${path} ${body.slice(0, 20)}`).toBeLessThan(500);
      }
    expect(({} as Record<string, unknown>).token).toBeUndefined();
    await commitsGoOn();
  });

  test('cookies that this server did not give open nothing', async () => {
    const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const forged of [
      `${part({ alg: 'none' })}.${part({ role: 'operator' })}.`,
      'A'.repeat(43),
      'null',
      '..',
      'x'.repeat(8_000),
    ])
      for (const path of [
        '/api/snapshot',
        '/api/operator/runs',
        '/api/operator/blocks',
        '/api/operator/export?run=tiny',
      ])
        expect((await fetch(server.url + path, { headers: { cookie: `shoal_operator=${forged}` } })).status).toBe(401);
  });

  test('uploads that nobody asked for, that say another length than they have, or never end', async () => {
    const hostile = await hostileDonor();
    const headers = { 'content-type': 'application/octet-stream' };
    const put = await hostile.fetch('/api/state?epoch=1&step=1&block=head&from=0&to=16', {
      method: 'PUT',
      body: new Uint8Array(400),
      headers,
    });
    expect(put.status).toBe(403);
    const { token } = hostile.welcome;
    const { hostname, port } = new URL(server.url);
    const endless = connect(Number(port), hostname);
    endless.on('error', () => {});
    endless.write(
      `PUT /api/state?epoch=1&step=1&block=head&from=0&to=16 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/octet-stream\r\nContent-Length: 4000\r\n\r\nabc`,
    );
    await commitsGoOn();
    endless.destroy();
    const left = await (await servers.data()).blobs.list();
    hostile.leave();
    await commitsGoOn();
    expect(await (await servers.data()).blobs.list()).toEqual(left);
  });

  test('four hundred requests whose heads never end', { timeout: 60_000 }, async () => {
    const { hostname, port } = new URL(server.url);
    const sockets = Array.from({ length: 400 }, (): Socket => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      socket.write('GET / HTTP/1.1\r\nHost: ');
      return socket;
    });
    await commitsGoOn(50);
    for (const socket of sockets) socket.destroy();
  });
});
