/** The HTTP server of a process, whoever answers on it: its patience, the names it is known by, and how many may connect. */
import { createServer as createHttpServer, type Server as HttpServer, type RequestListener } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { isIP, type Server as NetServer, type Socket } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { given, invariant } from '../../swarm/base.ts';
import { type Access, isKnownHost, knownNames, UNKNOWN_HOST } from './access.ts';
import { AddressLimit } from './addressLimit.ts';
import { failed, refuse } from './calls.ts';
import { among, networkOf } from './networkOf.ts';

/** Connections at once, of every kind; and of one address, but for a trusted proxy, which is everyone's. */
export const CONNECTIONS = 4_096;
const CONNECTIONS_PER_ADDRESS = 512;
/** A request's head is here by then, or its connection ends. */
const HEADERS_LIMIT_MS = 10_000;
const CONNECTION_CHECK_MS = 2_000;
// Bodies have limits of their own (slowRequests.ts): by their length, not one for all.
export const PATIENCE = {
  headersTimeout: HEADERS_LIMIT_MS,
  requestTimeout: 0,
  connectionsCheckingInterval: CONNECTION_CHECK_MS,
};

/** A proxy that looks whether this process is well asks for itself, by the address or name that it has for it. */
const HEALTH_CALL = /^\/(healthz|readyz)(\?|$)/;

/** A connection that another process of the site has: it knew by which name its client asked. */
export interface Vouched {
  readonly isVouched: true;
}

/** `listens` false: connections are handed to its server, with TLS taken off. */
export function application(access: Access, host: string, listens = true): FastifyInstance {
  const { trustProxy } = access;
  const tls = listens ? access.tls : undefined;
  const options: FastifyServerOptions = {
    ...{ logger: false, bodyLimit: 64 * 1024, forceCloseConnections: true },
    ...given({ trustProxy: trustProxy && [...trustProxy] }),
    // An address that cannot be read is of no call, and no other handler hears of it.
    frameworkErrors: (error, _request, reply) => failed(reply, error),
  };
  const serverFactory = (handler: RequestListener) =>
    tls === undefined ? createHttpServer(PATIENCE, handler) : createSecureServer({ ...tls, ...PATIENCE }, handler);
  const app = Fastify({ ...options, serverFactory });
  const names = knownNames(host, access);
  const isProxy = among(trustProxy ?? []);
  app.addHook('onRequest', async ({ headers, ip, socket, url }, reply) => {
    if (HEALTH_CALL.test(url) && isProxy(socket.remoteAddress ?? '')) return;
    // What a proxy that is trusted says its server is called is the proxy's own affair.
    const isProxied = trustProxy !== undefined && ip !== socket.remoteAddress;
    if (!isProxied && !('isVouched' in socket) && !isKnownHost(headers.host, names))
      return refuse(reply, 421, UNKNOWN_HOST);
  });
  // A WebSocket that was refused has no parser any more that would close it.
  app.addHook('onResponse', async ({ headers, socket }) => {
    if (headers.upgrade !== undefined) socket.destroySoon();
  });
  return app;
}

/** A flood from one address is cut before it costs more than its acceptance. */
export function limitConnections(
  server: HttpServer,
  { trustProxy = [] }: Access,
  refused: () => void,
  most = CONNECTIONS_PER_ADDRESS,
): void {
  const limit = new AddressLimit(most);
  const isProxy = among(trustProxy);
  server.maxConnections = CONNECTIONS;
  server.on('connection', (socket: Socket) => {
    if (isProxy(socket.remoteAddress ?? '')) return;
    const leave = limit.enter(networkOf(socket.remoteAddress ?? ''));
    if (leave !== null) {
      socket.once('close', leave);
      return;
    }
    refused();
    socket.destroy();
  });
}

export function addressOf(server: NetServer, host: string, { tls }: Access): string {
  const address = server.address();
  invariant(address !== null && typeof address === 'object', 'the server listens on a port');
  const isAny = host === '0.0.0.0' || host === '::';
  const name = isAny ? 'localhost' : isIP(host) === 6 ? `[${host}]` : host;
  return `${tls ? 'https' : 'http'}://${name}:${address.port}`;
}
