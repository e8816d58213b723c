/**
 * What comes to a process of a site. Donors' sockets end here, whoever leads: they outlive that. Of a run that it leads itself the
 * run's own server answers all else; of any other the pages are its own, and every other call goes to the process that leads it,
 * as the bytes of a connection of the same client.
 */
import { createServer, Server as HttpServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { sendError, serverError } from '../answers/apiErrors.ts';
import { SOCKET_LIMITS } from '../donors/donorSocket.ts';
import { addDonorDoor, type DoorOptions } from '../donors/door.ts';
import { type Access, type Hub, isKnownHost, knownNames } from '../http/access.ts';
import { application, limitConnections, PATIENCE } from '../http/application.ts';
import { problem } from '../http/calls.ts';
import { addPages } from '../http/pages.ts';
import { cutAnswered, limitAnswers, limitBodies, limitBodyTime } from '../http/slowRequests.ts';
import { addWebSockets } from '../http/webSockets.ts';
import { gatewayMetrics, METRICS_TYPE, type RunRole } from '../monitoring/metrics.ts';
import type { Room } from './room.ts';
import type { Rooms } from './rooms.ts';
import type { Tunnel } from './tunnel.ts';

/** Answered here, whoever leads. */
const DONORS = /^\/api\/donor(\?|$)/;
/** Answered here, where another process leads. */
const OWN = /^\/(healthz|readyz|metrics|assets\/)/;
/** Of one connection alone. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'expect', 'te', 'trailer']);
/** Done twice it is the same: who asks for it may ask again, though nobody knows whether it was done. */
const isRepeatable = (method: string, url: string): boolean =>
  method === 'GET' || method === 'HEAD' || url.split('?')[0] === '/api/operator/login';
const COME_AGAIN = { 'retry-after': '2' };
const JSON_TYPE = { 'content-type': 'application/json' };
const NOT_PASSED = 'this request cannot be passed on to the process that leads: a header of it is not valid';
const CUT_OFF = 'this server cannot reach the one that leads, because NATS does not answer: try again in some seconds';
const NOBODY_LEADS = 'no process of this site leads at the moment: try again in some seconds';

/** The runs of the site, as a gateway sees them. */
interface GatewayRooms {
  readonly first: Pick<Room, 'server' | 'isCutOff'>;
  readonly roles: readonly RunRole[];
  readonly isNatsAway: boolean;
  forDonor(...of: Parameters<Rooms['forDonor']>): Pick<Room, 'donors'> | null;
  forCall(...of: Parameters<Rooms['forCall']>): Pick<Room, 'server' | 'tunnel' | 'isCutOff'> | null;
}

interface GatewayOptions {
  readonly access: Access;
  readonly host: string;
  readonly pages: string | undefined;
  readonly embedOn: readonly string[];
  readonly hub: Hub;
  readonly rooms: GatewayRooms;
  /** How often what another process said could not be read. */
  malformed(): number;
}

export interface Gateway {
  /** To be handed connections. */
  readonly http: HttpServer;
  close(): Promise<void>;
}

export async function openGateway(options: GatewayOptions): Promise<Gateway> {
  const { access, host, rooms } = options;
  const whyNot = (): string => (rooms.isNatsAway || rooms.first.isCutOff ? CUT_OFF : NOBODY_LEADS);
  const own = await ownAnswers(options, whyNot);
  const names = knownNames(host, access);
  const isProxied = access.trustProxy !== undefined;
  /** A server of this process, or a way to another one. */
  const wayFor = (message: IncomingMessage): HttpServer | Tunnel => {
    const { url = '' } = message;
    if (DONORS.test(url)) return own.server;
    const { authorization = '', upgrade } = message.headers;
    const room = rooms.forCall(url, authorization);
    if (room?.server) return room.server.http;
    if (room === null || OWN.test(url)) return own.server;
    if (!isProxied && !isKnownHost(message.headers.host, names)) return own.server; // where it is refused
    // A page is told at once; what a donor asks for, with its token, waits until NATS is back.
    if (room.isCutOff && authorization === '') return own.server;
    const { remoteAddress = '' } = message.socket;
    const client = { remoteAddress, encrypted: 'encrypted' in message.socket };
    return room.tunnel(client, upgrade !== undefined) ?? own.server;
  };
  const http = createServer(PATIENCE, (message, response) => {
    try {
      const way = wayFor(message);
      if (way instanceof HttpServer) way.emit('request', message, response);
      else pass(way, message, response, { ownPage: () => own.server.emit('request', message, response), whyNot });
    } catch {
      // What Node read and will not write again: that client's affair alone.
      if (!response.headersSent) response.writeHead(400, JSON_TYPE).end(JSON.stringify({ error: NOT_PASSED }));
      else response.destroy();
    }
  });
  http.on('upgrade', (message: IncomingMessage, socket: Socket, head: Buffer) => {
    try {
      const way = wayFor(message);
      if (way instanceof HttpServer) way.emit('upgrade', message, socket, head);
      else passUpgrade(way, message, socket, head);
    } catch {
      socket.destroy();
    }
  });
  limitConnections(http, access, () => rooms.first.server?.run.counts.refusedConnection());
  return {
    http,
    close: async () => {
      await own.close();
      http.closeAllConnections();
    },
  };
}

async function ownAnswers(options: GatewayOptions, whyNot: () => string): Promise<FastifyInstance> {
  const { access, host, pages, embedOn, hub, rooms, malformed } = options;
  const app = application(access, host, false);
  limitAnswers(app);
  limitBodies(app);
  await addWebSockets(app, SOCKET_LIMITS);
  await addPages(app, pages, { embedOn, hub });
  const came: DoorOptions['came'] = (wire, origin, run) => {
    const room = rooms.forDonor(run);
    if (room === null)
      wire.terminate(); // its page comes again
    else room.donors.came(wire, origin);
  };
  addDonorDoor(app, { access, came, refused: () => rooms.first.server?.run.reception.countRefusal('serverFull') });
  const role = (): string => (rooms.roles.some(({ isLeading }) => isLeading) ? 'leader' : 'gateway');
  app.get('/healthz', async () => ({ ok: true, role: role() }));
  app.get('/readyz', async (_request, reply) => {
    const withoutLeader = rooms.roles.flatMap(({ isLed, name }) => (isLed ? [] : name));
    // A balancer that took it out for one run would take all out, for the others' donors too.
    const ok = withoutLeader.length < rooms.roles.length;
    const which = ok && withoutLeader.length > 0 ? { withoutLeader } : {};
    return reply.code(ok ? 200 : 503).send({ ok, role: role(), ...which, ...(ok ? {} : { reason: whyNot() }) });
  });
  app.get('/metrics', async (_request, reply) =>
    reply.type(METRICS_TYPE).send(await gatewayMetrics(rooms.roles, malformed())),
  );
  app.all('/api/*', (_request, reply) => problem(reply.headers(COME_AGAIN), 503, whyNot()));
  for (const path of ['/v1/*', '/talk/*'])
    app.all(path, (_request, reply) => sendError(reply.headers(COME_AGAIN), serverError(503, whyNot())));
  await app.ready();
  return app;
}

/** Names and values by turns, as they came. */
function passedOn(raw: readonly string[]): string[] {
  const passed: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const [name = '', value = ''] = raw.slice(index, index + 2);
    if (!HOP_BY_HOP.has(name.toLowerCase())) passed.push(name, value);
  }
  return passed;
}

interface Instead {
  /** Answers with the page of this process, whose calls come again when somebody leads. */
  ownPage(): void;
  /** Why another call is not answered. */
  whyNot(): string;
}

function pass(way: Tunnel, message: IncomingMessage, response: ServerResponse, { ownPage, whyNot }: Instead): void {
  const { method = 'GET', url = '/', rawHeaders } = message;
  const asked = request({
    ...{ method, path: url, setHost: false, createConnection: () => way as unknown as Socket },
    headers: passedOn(rawHeaders) as unknown as Record<string, string>,
  });
  const fail = (): void => {
    const headers = { ...JSON_TYPE, ...(isRepeatable(method, url) ? COME_AGAIN : {}) };
    if (response.headersSent) response.destroy();
    else if (method === 'GET' && !/^\/(api|v1)\//.test(url)) ownPage();
    else response.writeHead(503, headers).end(JSON.stringify({ error: whyNot() }));
  };
  asked.on('error', fail);
  asked.on('response', (answer) => {
    response.writeHead(answer.statusCode ?? 502, passedOn(answer.rawHeaders));
    answer.on('error', fail);
    answer.pipe(response);
  });
  response.on('finish', () => cutAnswered(message));
  response.on('close', () => way.destroy());
  limitBodyTime(message);
  message.pipe(asked);
}

/** The operator's feed: from the first byte on as it came. */
function passUpgrade(way: Tunnel, { method, url, rawHeaders }: IncomingMessage, socket: Socket, head: Buffer): void {
  const lines = [`${method} ${url} HTTP/1.1`];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}`);
  way.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  way.write(head);
  way.pipe(socket).pipe(way);
  way.on('error', () => socket.destroy());
  way.on('close', () => socket.destroy());
  socket.on('error', () => way.destroy());
  socket.on('close', () => way.destroy());
}
