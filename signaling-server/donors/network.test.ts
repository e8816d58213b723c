import { request } from 'node:https';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type PeerId, peerId } from '../../swarm/base.ts';
import { NO_LIMITS } from '../../swarm/limits.ts';
import type { LinkReport } from '../../swarm/messages/profile.ts';
import { encodeEnvelope } from '../../swarm/messages/relay.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { outlineModel } from '../../swarm/testing/randomPlan.ts';
import type { Server, ServerOptions } from '../server.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../testing/testCertificate.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { Network } from './network.ts';

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: 100_000 });
});
afterEach(() => servers.close());
const serve = (options: Partial<ServerOptions>): Promise<Server> => servers.serve(options);

describe('a run by invitation', () => {
  it('refuses whose link does not carry it, and nobody else', async () => {
    const server = await serve({ invite: 'sesame', expectedDonors: 9 });
    for (const invite of [undefined, '', 'sesam', 'sesame!']) {
      const stranger = new ScriptedDonor(server.url, { invite });
      expect((await stranger.hears('refused')).reason).toBe('notInvited');
    }
    await ScriptedDonor.joined(server.url, { invite: 'sesame' });
  });
});

it('[WP12] tells every donor the ICE servers', async () => {
  const iceServers = [{ urls: 'stun:stun.example.org' }];
  const server = await serve({ iceServers, expectedDonors: 9 });
  expect((await new ScriptedDonor(server.url).hears('welcome')).iceServers).toEqual(iceServers);
});

it('[WP22] relays nothing before there is a plan, and gives the sender its window back', async () => {
  const server = await serve({ expectedDonors: 9 });
  const [a, b] = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
  await Promise.all([a.hears('welcome'), b.hears('welcome')]);
  for (let i = 0; i < 20; i++) a.sayRaw(encodeEnvelope('frame', b.welcome.peer, new Uint8Array(60_000)));
  await server.run.until((run) => run.donors().length === 2);
  a.leave(); // behind its frames
  await server.run.until((run) => run.donors().length === 1);
  expect(server.run.network.relay.counts).toEqual({ frames: 0, bytes: 0, droppedFrames: 20 });
  expect(b.relayed).toEqual([]);
});

it('[WP22] relays between the donors of a plan', async () => {
  const server = await serve({ expectedDonors: 2 });
  const [a, b] = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
  await Promise.all([a.hears('start'), b.hears('start')]);
  a.sayRaw(encodeEnvelope('frame', b.welcome.peer, new Uint8Array([1, 2, 3])));
  await b.hearsBytes();
  expect(b.relayed.map((bytes) => [...bytes])).toEqual([
    [...encodeEnvelope('frame', a.welcome.peer, new Uint8Array([1, 2, 3]))],
  ]);
  await a.hearsBytes();
  expect(server.run.network.relay.counts).toEqual({ frames: 1, bytes: 3, droppedFrames: 0 });
});

it('[LI6] partners hear of each other’s caps, a few times a second where these change without end', async () => {
  const server = await serve({ expectedDonors: 2 });
  const [a, b] = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
  await Promise.all([a.hears('prepare'), b.hears('prepare')]);
  for (let i = 0; i < 500; i++) a.say({ type: 'limits', limits: { ...NO_LIMITS, downloadBytesPerSecond: 1e6 + i } });
  const newest = [{ peer: a.welcome.peer, bytesPerSecond: 1e6 + 499 }];
  await b.hears('limits', ({ downloads }) => JSON.stringify(downloads) === JSON.stringify(newest));
  expect(b.received.filter(({ type }) => type === 'limits').length).toBeLessThan(50);
});

describe('[WP41] a donor that is not admitted', () => {
  it('is told nobody’s name, and reaches nobody', async () => {
    const server = await serve({ expectedDonors: 2 });
    const donors = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
    await Promise.all(donors.map((donor) => donor.hears('start')));
    const stranger = new ScriptedDonor(server.url, { measures: false });
    await stranger.hears('welcome');
    for (const { welcome } of donors) expect(JSON.stringify(stranger.received)).not.toContain(welcome.peer);
    const [first] = donors;
    stranger.say({ type: 'signal', to: first?.welcome.peer ?? peerId(''), epoch: 1, data: 'call' });
    expect((await stranger.hears('refused')).reason).toBe('outOfOrder');
    for (const { received } of donors) expect(received.filter(({ type }) => type === 'signal')).toEqual([]);
  });

  it('reads nothing with its token', async () => {
    const server = await serve({ expectedDonors: 9 });
    const stranger = new ScriptedDonor(server.url, { measures: false });
    const { data } = (await stranger.hears('welcome')).run;
    const paths = [`/api/tokens/${data.shards[0]}`, '/api/state/0/head?kind=value&from=0&to=8', '/api/checkpoint'];
    for (const path of paths) expect((await stranger.fetch(path)).status, path).toBe(401);
    const admitted = await ScriptedDonor.joined(server.url);
    await server.run.until((run) => run.donors().length === 1);
    const statuses = await Promise.all(paths.map(async (path) => (await admitted.fetch(path)).status));
    // Without a plan there is no part of the state that it needs.
    expect(statuses).toEqual([200, 403, 200]);
  });
});

it('[WP45] carries a signal between partners, without addresses that are nobody’s', async () => {
  const server = await serve({ expectedDonors: 2 });
  const [a, b] = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
  await Promise.all([a.hears('prepare'), b.hears('prepare')]);
  const told = (address: string) => ({
    type: 'candidate',
    candidate: { candidate: `candidate:1 1 udp 1 ${address} 5000 typ host`, sdpMid: '0', sdpMLineIndex: 0 },
  });
  const to = b.welcome.peer;
  for (const address of ['127.0.0.1', 'router.local', '10.0.0.7'])
    a.say({ type: 'signal', to, epoch: 1, data: JSON.stringify(told(address)) });
  // Both are of this machine: of one network.
  expect(JSON.parse((await b.hears('signal')).data)).toEqual(told('10.0.0.7'));
});

it('knows the ways between donors who have a part, as each measured its own with its last report', () => {
  const model = outlineModel(2, true);
  const network = new Network({}, { model, sequence: 5, wire: 'f32', asked: 'f32', rounds: 0 });
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(peerId);
  if (!a || !b || !c || !d) throw new Error('four peers');
  const way = (peer: PeerId, roundTripMs: number | null): LinkReport => ({
    ...{ peer, route: 'direct', roundTripMs, bytesPerSecond: null },
  });
  const plan = equalSplit(model, 4, [a, b]);
  const prepare = { type: 'prepare', epoch: 1, generation: 0, step: 0, source: { from: 'kept' }, plan } as const;
  network.told(a, prepare, 0);
  network.told(b, prepare, 0);
  // Of an island of its own, that meets a.
  network.told(d, { ...prepare, epoch: 2, plan: equalSplit(model, 4, [d]) }, 0);
  network.reported(d, [way(a, 9)]);
  network.reported(a, [way(b, null)]);
  network.reported(a, [way(b, 7)]);
  network.reported(b, [{ ...way(a, 8), route: 'relayed', bytesPerSecond: 1e6 }, way(c, 1)]);
  network.reported(c, [way(a, 1)]);
  expect(network.links()).toEqual([
    { from: a, ...way(b, 7) },
    { from: b, ...way(a, 8), route: 'relayed', bytesPerSecond: 1e6 },
    { from: d, ...way(a, 9) },
  ]);
  network.told(d, { type: 'standby', state: 'spare' }, 0);
  expect(network.links().map(({ from }) => from)).toEqual([a, b]);
  network.gone(a);
  expect(network.links()).toEqual([]);
});

it('counts by server and code how many donors’ last reports have a TURN server of its own that fails', () => {
  const model = outlineModel(2, true);
  const [own, other] = ['turn:t.example', 'turns:t.example?transport=tcp'];
  const iceServers = [{ urls: 'stun:s.example' }, { urls: [own, other], username: 'u', credential: 'c' }];
  const network = new Network({ iceServers }, { model, sequence: 5, wire: 'f32', asked: 'f32', rounds: 0 });
  const [a, b, c] = ['a', 'b', 'c'].map(peerId) as [PeerId, PeerId, PeerId];
  network.reported(a, [], [{ url: own, code: 401 }]);
  network.reported(
    b,
    [],
    [
      { url: own, code: 701 },
      { url: own, code: 401 },
      { url: other, code: 486 },
    ],
  );
  network.reported(
    c,
    [],
    [
      { url: 'turn:elsewhere.example', code: 401 },
      { url: 'stun:s.example', code: 701 },
      { url: own, code: 401 },
    ],
  );
  const counts = (): unknown => network.turnErrors().map(({ url, code, donors }) => [url, code, donors]);
  expect(counts()).toEqual([
    [own, 401, 2],
    [own, 701, 1],
    [other, 486, 1],
  ]);
  network.reported(a, []);
  network.gone(b);
  expect(counts()).toEqual([[own, 401, 1]]);
});

it('serves https with a certificate, and says so in its address', async () => {
  const server = await serve({ access: { tls: { cert: TEST_CERTIFICATE, key: TEST_KEY } } });
  expect(server.url).toMatch(/^https:/);
  const status = await new Promise((resolve, reject) => {
    const call = request(`${server.url}/healthz`, { rejectUnauthorized: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    call.on('error', reject).end();
  });
  expect(status).toBe(200);
});

it('a page of another site gets no donor socket', async () => {
  const server = await serve({ access: { publicUrl: 'https://shoal.example.org' } });
  const open = (origin: string) =>
    new Promise<string>((resolve) => {
      const socket = new WebSocket(`${server.url.replace(/^http/, 'ws')}/api/donor`, { headers: { origin } });
      socket.on('open', () => {
        socket.terminate();
        resolve('open');
      });
      socket.on('error', ({ message }) => resolve(message));
    });
  expect(await open('https://evil.example.org')).toMatch('403');
  expect(await open('https://shoal.example.org')).toBe('open');
  expect(await open(server.url)).toBe('open');
});
