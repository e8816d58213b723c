import fastify from 'fastify';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { addWebSockets } from './webSockets.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
});

// nginx's proxy_read_timeout is 60 s where nobody sets it.
const NGINX_MS = 60_000;

it('a socket that says nothing carries more than one ping before a proxy would cut it', async () => {
  const app = fastify();
  await addWebSockets(app);
  app.get('/quiet', { websocket: true }, () => {});
  const address = await app.listen({ port: 0, host: '127.0.0.1' });
  const sockets = [1, 2].map(() => new WebSocket(`${address.replace('http', 'ws')}/quiet`));
  await Promise.all(sockets.map((socket) => new Promise<void>((done) => socket.on('open', done))));
  const pinged = (times: number): Promise<unknown> =>
    Promise.all(
      sockets.map(
        (socket) =>
          new Promise<void>((done) => {
            let count = 0;
            socket.on('ping', () => {
              count += 1;
              if (count === times) done();
            });
          }),
      ),
    );
  const heard = pinged(2);
  vi.advanceTimersByTime(NGINX_MS - 1);
  await heard;
  for (const socket of sockets) socket.terminate();
  await app.close();
  expect(vi.getTimerCount()).toBe(0);
});
