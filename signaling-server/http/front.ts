/**
 * The address of a process of a site: its connections are handed, with TLS taken off, to a server that does not listen itself.
 */
import type { Server as HttpServer } from 'node:http';
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Access } from './access.ts';
import { addressOf, CONNECTIONS } from './application.ts';
import { listenProblem } from './listening.ts';

export interface Front {
  readonly url: string;
  close(): Promise<void>;
}

export async function openFront(
  host: string,
  port: number,
  access: Access,
  server: HttpServer,
): Promise<Result<Front>> {
  const came = (socket: Socket): void => {
    socket.on('error', () => socket.destroy()); // before anyone else listens
    server.emit('connection', socket);
  };
  const { tls } = access;
  const listener: NetServer =
    tls === undefined ? createServer(came) : createTlsServer({ ...tls, ALPNProtocols: ['http/1.1'] }, came);
  listener.maxConnections = CONNECTIONS;
  if (tls !== undefined) listener.on('tlsClientError', () => {}); // that client alone has no connection
  const problem = await new Promise<string | null>((resolve) => {
    listener.once('error', (error) => resolve(listenProblem(error, host, port)));
    listener.listen({ host, port }, () => resolve(null));
  });
  if (problem !== null) return refusal(problem);
  return success({
    url: addressOf(listener, host, access),
    close: () => new Promise((resolve) => listener.close(() => resolve())),
  });
}
