/**
 * One address that listens for as long as its process lives, whoever answers there: connections are handed, with TLS taken
 * off, to the server that is in charge at the moment.
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
  /** New connections are this one's from now on. */
  handTo(server: HttpServer): void;
  close(): Promise<void>;
}

export async function openFront(host: string, port: number, access: Access, first: HttpServer): Promise<Result<Front>> {
  let inCharge = first;
  const came = (socket: Socket): void => {
    socket.on('error', () => socket.destroy()); // before anyone else listens
    inCharge.emit('connection', socket);
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
    handTo: (server) => {
      inCharge = server;
    },
    close: () => new Promise((resolve) => listener.close(() => resolve())),
  });
}
