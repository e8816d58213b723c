/**
 * The WebSockets of an application, kept open: proxies cut what carries nothing for a while (nginx after 60 s), and an
 * operator's feed carries nothing while the run stands. Browsers answer a ping by themselves.
 */
import websocket, { type WebsocketPluginOptions } from '@fastify/websocket';
import type { FastifyInstance } from 'fastify';

const PING_MS = 25_000;

/** `options`: as the library `ws` takes them. */
export async function addWebSockets(
  app: FastifyInstance,
  options: NonNullable<WebsocketPluginOptions['options']> = {},
): Promise<void> {
  await app.register(websocket, { options });
  const timer = setInterval(() => {
    for (const socket of app.websocketServer.clients) socket.ping();
  }, PING_MS);
  timer.unref();
  app.addHook('onClose', async () => clearInterval(timer));
}
