import { connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { limitAnswers, limitBodies } from './slowRequests.ts';

let app: FastifyInstance;
let port: number;
let begun: () => void = () => {};
const bodies: unknown[] = [];
let made = 0;
beforeEach(async () => {
  // The sockets' own time is real.
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
  app = Fastify({ trustProxy: true });
  limitAnswers(app);
  limitBodies(app);
  app.addHook('preParsing', async () => begun());
  app.post('/', async ({ body }) => {
    bodies.push(body);
    return 'taken';
  });
  app.get('/large', (_request, reply) => {
    made += 1;
    return reply.send(Readable.from(endless()));
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const address = app.server.address();
  invariant(address !== null && typeof address === 'object', 'it listens');
  port = address.port;
});
afterEach(async () => {
  vi.useRealTimers();
  await app.close();
  bodies.length = 0;
  made = 0;
});

function* endless(): Generator<Buffer> {
  for (;;) yield Buffer.alloc(65_536);
}

/** A request whose head is here, with so much of its body. */
async function request(length: number | null, body: string): Promise<{ socket: Socket; closed: Promise<string> }> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    answer += text;
  });
  socket.on('error', () => {}); // the close that follows says it
  const closed = new Promise<string>((resolve) => socket.on('close', () => resolve(answer)));
  const arrived = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const size = length === null ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`;
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nConnection: close\r\n${size}\r\n\r\n${body}`);
  await Promise.race([arrived, closed]);
  return { socket, closed };
}

test('[SV36] a body that does not come in ten seconds, and one for each 5,000 bytes that it says, ends its connection', async () => {
  const [slow, endless, long] = [
    await request(100, 'x'),
    await request(null, '1\r\nx\r\n'),
    await request(100_000, 'x'),
  ];
  vi.advanceTimersByTime(12_000);
  expect(await Promise.all([slow.closed, endless.closed])).toEqual(['', '']);
  expect(long.socket.destroyed).toBe(false);
  long.socket.write('y'.repeat(99_999));
  expect(await long.closed).toContain('200 OK');
  expect(bodies).toHaveLength(1);
});

test('[SV36] a long body of which nothing comes for twenty seconds ends its connection', async () => {
  const stopped = await request(1_000_000, 'x');
  vi.advanceTimersByTime(25_000);
  expect(await stopped.closed).toBe('');
});

test('[SV36] of one address at most 256 bodies are on their way; those that have come or gone count no more', async () => {
  const gone = await request(100, 'x');
  gone.socket.destroy();
  await gone.closed;
  const held: Awaited<ReturnType<typeof request>>[] = [];
  while (held.length < 256) held.push(await request(100, 'x'));
  const over = await request(100, 'x');
  expect(await over.closed).toContain('429');
  held[0]?.socket.write('y'.repeat(99));
  expect(await held[0]?.closed).toContain('200 OK');
  const next = await request(5, 'xxxxx');
  expect(await next.closed).toContain('200 OK');
  for (const { socket } of held) socket.destroy();
});

/** A connection of this address that asks so often for the large answer. */
function ask(address: string, times = 1): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {}); // it is let go
  socket.write(`GET /large HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\n\r\n`.repeat(times));
  return socket;
}

test('[SV36] a large answer that is read drop by drop ends its connection; one that is read goes on, and others beside it over the same line', async () => {
  const [drips, reads, waits] = [ask('192.0.2.1'), ask('192.0.2.2'), ask('192.0.2.2')];
  let read = 0;
  reads.on('data', (piece: Buffer) => {
    read += piece.length;
  });
  await vi.waitUntil(() => drips.bytesRead > 0 && waits.bytesRead > 0 && read > 0);
  for (const one of [drips, waits]) one.pause();
  const closed = new Promise((resolve) => drips.once('close', resolve));
  let isEnded = false;
  waits.once('close', () => {
    isEnded = true;
  });
  for (let minute = 0; minute < 3; minute++) {
    const before = read;
    await vi.waitUntil(() => read > before + 1_000_000);
    await sleep(200); // what the system holds of the others is full by then
    vi.advanceTimersByTime(60_000);
  }
  for (const one of [drips, waits]) one.resume();
  await closed;
  await sleep(50);
  expect([reads.destroyed, isEnded]).toEqual([false, false]);
  for (const one of [reads, waits]) one.destroy();
});

test('[SV36] on one connection no answer is made before the one before it is read', async () => {
  const asks = ask('192.0.2.1', 16);
  await vi.waitUntil(() => asks.bytesRead > 0);
  asks.pause();
  const later = ask('192.0.2.2');
  await vi.waitUntil(() => later.bytesRead > 0);
  expect(made).toBe(2);
  for (const one of [asks, later]) one.destroy();
});

test('[SV36] a connection with more requests than that unanswered ends', async () => {
  const asks = ask('192.0.2.1', 17);
  await new Promise((resolve) => asks.once('close', resolve));
  const later = ask('192.0.2.2');
  await vi.waitUntil(() => later.bytesRead > 0);
  expect(made).toBeLessThanOrEqual(2);
  later.destroy();
});

test('[SV36] a connection carries any number of requests, one after the other', async () => {
  const socket = connect(port, '127.0.0.1');
  let answers = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    answers += text;
  });
  const count = (): number => answers.split('HTTP/1.1 ').length - 1;
  for (let number = 1; number <= 40; number++) {
    const [method, path] = number % 2 ? ['POST', '/'] : ['GET', '/nowhere'];
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n`);
    await vi.waitUntil(() => count() === number);
  }
  expect(socket.destroyed).toBe(false);
  socket.destroy();
});
