/** Floods of every kind against a server that trains: honest donors' commits go on. */
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { Server, ServerOptions } from '../server.ts';
import { counted } from '../testing/counted.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const STEPS = 100_000;
const HOSTILE_MESSAGES = 10_000;
const HOSTILE_SOCKETS = 1_000;

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: STEPS });
});
afterEach(() => servers.close());

/** A server with one honest donor, at work. */
async function training(options: Partial<ServerOptions> = {}): Promise<Server> {
  const server = await servers.serve({ stages: 1, ...options });
  const honest = new ScriptedDonor(server.url);
  await honest.hears('committed');
  return server;
}

/** Resolves when the honest donor has had so many more steps committed. */
function commits(server: Server, steps = 20): Promise<void> {
  const { committedSteps } = server.run;
  return server.run.until((run) => run.committedSteps >= committedSteps + steps);
}

/** One that is not yet welcomed by anyone, and says what it wants. */
function hostileSocket(server: Server): WebSocket {
  const socket = new WebSocket(`${server.url.replace(/^http/, 'ws')}/api/donor`);
  socket.on('error', () => {}); // the close that follows says it
  return socket;
}
const closed = (socket: WebSocket): Promise<number> => new Promise((resolve) => socket.on('close', resolve));

test('10,000 messages at once', async () => {
  const server = await training();
  const hostile = new ScriptedDonor(server.url);
  hostile.obedient = false;
  await hostile.hears('welcome');
  const steps = commits(server);
  for (let i = 0; i < HOSTILE_MESSAGES; i++) hostile.say({ type: 'heartbeat' });
  await hostile.closed;
  expect(await counted(server, 'shoal_refused_total{reason="tooManyMessages"}')).toBe(1);
  await steps;
  await commits(server);
});

test('a donor is no flood for being fast: its reports are asked for', async () => {
  const server = await training();
  vi.useFakeTimers({ toFake: ['Date'] }); // no time passes in which it could earn messages
  try {
    await commits(server, 1_500);
  } finally {
    vi.useRealTimers();
  }
  expect(await counted(server, 'shoal_refused_total{reason="tooManyMessages"}')).toBe(0);
});

test('1,000 sockets from one address', { timeout: 120_000 }, async () => {
  const server = await training({ connectionsPerAddress: 64 });
  const steps = commits(server);
  let [admitted, open, mostOpen] = [0, 0, 0];
  const sockets = Array.from({ length: HOSTILE_SOCKETS }, () => hostileSocket(server));
  const answers = sockets.map((socket) => {
    const isLetIn = new Promise<void>((resolve) =>
      socket.on('open', () => {
        admitted++;
        open++;
        mostOpen = Math.max(mostOpen, open);
        socket.on('close', () => open--);
        resolve();
      }),
    );
    return Promise.race([isLetIn, closed(socket)]);
  });
  await Promise.all(answers);
  await steps;
  expect(mostOpen).toBeLessThanOrEqual(64);
  expect(admitted).toBeLessThan(HOSTILE_SOCKETS); // one that says no hello goes in time, and leaves its place
  expect(await counted(server, 'shoal_refused_connections_total')).toBeGreaterThan(0);
  await commits(server);
  for (const socket of sockets) socket.terminate();
});

test('more donors of one address than it may have', async () => {
  const server = await training({ donorsPerAddress: 3 });
  const [second, third] = [new ScriptedDonor(server.url), new ScriptedDonor(server.url)];
  await Promise.all([second.hears('welcome'), third.hears('welcome')]);
  const over = hostileSocket(server);
  expect(await closed(over)).toBe(1013);
  second.leave();
  await second.closed;
  await commits(server, 3);
});

test('more connections of one address in a minute than its donors need', async () => {
  const server = await training({ donorsPerAddress: 2 });
  let refused = 0;
  for (let i = 0; i < 12; i++) {
    const again = hostileSocket(server);
    again.on('error', (error) => {
      if (error.message.includes('429')) refused += 1;
    });
    again.on('open', () => again.close());
    await closed(again);
  }
  expect(refused).toBe(12 - 5); // the honest donor came once
  await commits(server);
});

test('a message of 100 MB', async () => {
  const server = await training();
  const hostile = new ScriptedDonor(server.url);
  hostile.obedient = false;
  await hostile.hears('welcome');
  const steps = commits(server);
  hostile.sayRaw(new Uint8Array(100_000_000).fill(32));
  await hostile.closed;
  expect(await counted(server, 'shoal_refused_total{reason="tooLarge"}')).toBe(1);
  await steps;
  await commits(server);
});

/** A WebSocket's handshake by hand, so that nothing reads what comes. */
function deafDonor(server: Server): Socket {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.write(
    `GET /api/donor HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2hvYWwgaXMgYSBmaXNoLg==\r\n\r\n',
  );
  socket.pause();
  return socket;
}

test('[SV3] a client that never reads, and one that never finishes its request', async () => {
  const server = await training();
  const deaf = deafDonor(server);
  const { hostname, port } = new URL(server.url);
  const slow = connect(Number(port), hostname);
  slow.on('error', () => {});
  slow.write('GET / HTTP/1.1\r\nHost: ');
  await commits(server, 200);
  deaf.destroy();
  slow.destroy();
  await commits(server);
});
