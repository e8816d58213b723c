import { request } from 'node:https';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type PeerId, peerId } from '../../swarm/base.ts';
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
  servers = new TinyServers({ steps: 3 });
});
afterEach(() => servers.close());
const serve = (options: Partial<ServerOptions>): Promise<Server> => servers.serve(options);

describe('a run by invitation', () => {
  it('[WP11] refuses whose link does not carry it, and nobody else', async () => {
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
  a.say({ type: 'signal', to: b.welcome.peer, epoch: 0, data: 'after them' });
  await b.hears('signal');
  expect(server.run.network.relay.counts).toEqual({ frames: 0, bytes: 0, droppedFrames: 20 });
  expect(b.relayed).toEqual([]);
});

it('[WP22] relays between the donors of a plan', async () => {
  const server = await serve({ expectedDonors: 2 });
  const [a, b] = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
  await Promise.all([a.hears('prepare'), b.hears('prepare')]);
  a.sayRaw(encodeEnvelope('frame', b.welcome.peer, new Uint8Array([1, 2, 3])));
  await b.hearsBytes();
  expect(b.relayed.map((bytes) => [...bytes])).toEqual([
    [...encodeEnvelope('frame', a.welcome.peer, new Uint8Array([1, 2, 3]))],
  ]);
  await a.hearsBytes();
  expect(server.run.network.relay.counts).toEqual({ frames: 1, bytes: 3, droppedFrames: 0 });
});

it('[WP16] knows the ways between the donors of the plan, as each measured its own with its last report', () => {
  const network = new Network({});
  const [a, b, c] = ['a', 'b', 'c'].map(peerId);
  if (!a || !b || !c) throw new Error('three peers');
  const way = (peer: PeerId, roundTripMs: number | null): LinkReport => ({
    ...{ peer, route: 'direct', roundTripMs, bytesPerSecond: null },
  });
  network.planned(equalSplit(outlineModel(2, true), 4, [a, b]));
  network.reported(a, [way(b, null)]);
  network.reported(a, [way(b, 7)]);
  network.reported(b, [{ ...way(a, 8), route: 'relayed', bytesPerSecond: 1e6 }, way(c, 1)]);
  network.reported(c, [way(a, 1)]);
  expect(network.links()).toEqual([
    { from: a, ...way(b, 7) },
    { from: b, ...way(a, 8), route: 'relayed', bytesPerSecond: 1e6 },
  ]);
  network.gone(a);
  expect(network.links().map(({ from }) => from)).toEqual([b]);
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

it('[WP13] a page of another site gets no donor socket', async () => {
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
