/**
 * The server of one run: pages, the donors' sockets, their HTTP calls and the dashboard's. It only wires: what is
 * decided is decided in swarm/coordinator, what is kept is kept by the store.
 */

import { createServer as createHttpServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { isIP, type Socket } from 'node:net';
import websocket from '@fastify/websocket';
import Fastify, { type FastifyInstance, type FastifyRequest, type FastifyServerOptions } from 'fastify';
import type { PlanWishes } from '../swarm/autoplan/wishes.ts';
import { invariant, type Result, refusal, success } from '../swarm/base.ts';
import { SILENCE } from '../swarm/coordinator/deadlines.ts';
import type { PublicStatus } from '../swarm/messages/publicStatus.ts';
import { addDonorApi } from './api/donorApi.ts';
import { addMemberApi } from './api/memberApi.ts';
import { addPreviewPicture, originOf, previewTags } from './api/preview.ts';
import { publicStatus } from './api/publicStatus.ts';
import { type PublicView, Visible } from './api/visible.ts';
import { DonorSocket, refusedFor, SOCKET_LIMITS } from './donors/donorSocket.ts';
import type { NetworkOptions } from './donors/network.ts';
import { freeDisk } from './files/freeDisk.ts';
import { type Access, isForwarded, isKnownHost, isSameOrigin, knownNames, UNKNOWN_HOST } from './http/access.ts';
import { AddressLimit } from './http/addressLimit.ts';
import { Arrivals } from './http/arrivals.ts';
import { perMinute, problem } from './http/calls.ts';
import { listenProblem } from './http/listening.ts';
import { among, isLoopback, networkOf } from './http/networkOf.ts';
import { addPages } from './http/pages.ts';
import { limitBodies } from './http/slowRequests.ts';
import { throttled } from './http/throttled.ts';
import { monotonicMs } from './monitoring/clock.ts';
import type { Log } from './monitoring/log.ts';
import { boundedLog } from './monitoring/log.ts';
import { METRICS_TYPE, OPEN_METRICS_TYPE } from './monitoring/metrics.ts';
import { AlertWatch } from './operator/alertWatch.ts';
import { addOperatorApi } from './operator/api.ts';
import { addressKey } from './operator/controls.ts';
import { followQueue } from './operator/queue.ts';
import { Rehearsals } from './operator/rehearsals.ts';
import { newSessionKey, operatorSession } from './operator/session.ts';
import { withLinks } from './operator/source.ts';
import { type PlanSearch, planSearch } from './planning/planThread.ts';
import { openRecorder, type Recorder } from './run/recorder.ts';
import { ActiveRun } from './run/run.ts';
import { copied, loadableProblem } from './store/checkpoints.ts';
import type { DataDirectory } from './store/dataDirectory.ts';
import { cardOf } from './store/runCard.ts';

export const DEFAULT_PORT = 8080;
/** Donors see the run at most so often; it is for people. */
const SNAPSHOT_INTERVAL_MS = 1_000;
/** How long a stop waits for the step in progress and its checkpoint. */
const STOP_LIMIT_MS = 180_000;
/** Connections at once, of every kind; and of one address, but for a trusted proxy, which is everyone's. */
const CONNECTIONS = 4_096;
const CONNECTIONS_PER_ADDRESS = 512;
/** Donors of one address at once: a class behind one router fits. */
const DONORS_PER_ADDRESS = 256;
/** Times a minute that each of them may connect: every time is written down. */
const JOINS_PER_DONOR = 3;
/** A request's head is here by then, or its connection ends. */
const HEADERS_LIMIT_MS = 10_000;
const CONNECTION_CHECK_MS = 2_000;
/** Of the public page, which asks twelve times a minute. */
const STATUS_CALLS = perMinute(120);

export interface ServerOptions extends PlanWishes, NetworkOptions {
  readonly access?: Access;
  readonly data: DataDirectory;
  readonly runName: string;
  readonly log: Log;
  /** In place of the plan thread: who searches for plans. */
  readonly search?: PlanSearch;
  /** Origins of the sites that may show `/embed` in a frame. */
  readonly embedOn?: readonly string[];
  /** Folder with the built pages; without it there are only the calls. */
  readonly pages?: string;
  /** What anyone may see of a run that is by invitation. */
  readonly publicView?: PublicView;
  readonly host?: string;
  /** 0: any free one. */
  readonly port?: number;
  /** Fixed number of donors, all of whom compute: no step before they are there. Null: whoever comes. */
  readonly expectedDonors?: number | null;
  readonly steps?: number;
  readonly metricsPath?: string;
  /** Every event of the decisions is appended to it. */
  readonly recordPath?: string;
  readonly maxDonors?: number;
  readonly donorsPerAddress?: number;
  readonly connectionsPerAddress?: number;
  readonly gatherLimitMs?: number | null;
  /** The operator chose another run of the data directory; absent: this server is for one run alone. */
  readonly onActivate?: (run: string) => void;
  /** Told every operator token: the first one, and one after each login. */
  readonly onOperatorToken?: (token: string) => void;
}

export interface Server {
  readonly url: string;
  /** What a donor opens that this server's own command starts: by it the server knows that it is none of the others. */
  readonly ownDonorUrl: string;
  readonly run: ActiveRun;
  /** To be told of the donors that its own command opened. */
  readonly rehearsals: Rehearsals;
  operatorToken(): string;
  /** Stops at the next step boundary, with everything saved, and closes. */
  stop(): Promise<void>;
  /** Closes at once; what is committed stays committed. */
  close(): Promise<void>;
}

export async function createServer(options: ServerOptions): Promise<Result<Server>> {
  const { data, host = 'localhost', port = DEFAULT_PORT, access = {}, log } = options;
  const problem = await loadableProblem(data, options.runName, (text) => log('warn', text));
  if (problem !== null) return refusal(`run ${options.runName}: ${problem}`);
  const recorder =
    options.recordPath === undefined ? null : openRecorder(options.recordPath, (text) => log('warn', text));
  if (recorder?.ok === false) return recorder;
  const ownKey = data.store.secret('ownDonorKey', newSessionKey);
  const run = activeRun(options, ownKey, recorder?.value);
  const app = application(access, host);
  app.addHook('onSend', async ({ method }, { statusCode }) => {
    // Who asked for something to be kept hears of it when it is; that it is not is said at once.
    if (method !== 'GET' && statusCode < 500) await data.store.kept();
  });
  const sessions = {
    saved: data.store.sessions(),
    save: (text: string) => run.keep(() => data.store.saveSessions(text)),
  };
  const session = operatorSession(sessions, (token) => options.onOperatorToken?.(token));
  limitBodies(app);
  await app.register(websocket, { options: SOCKET_LIMITS });
  const visible = new Visible(run, options.publicView ?? 'nothing', (cookie) => session.roleOf(cookie) !== null);
  const status = publicStatus(run, data.store);
  const preview = (request: FastifyRequest): string => {
    const isSeen = visible.refusal('status', request) === null;
    const purpose = isSeen ? (cardOf(data.store, run.name)?.purpose ?? '') : '';
    return previewTags({ status: isSeen ? status() : null, purpose }, originOf(request, access));
  };
  await addPages(app, options.pages, { preview, embedOn: options.embedOn ?? [] });
  addPreviewPicture(app, status, visible);
  addDonorApi(app, run, data.blobs);
  addMemberApi(app, run, data, access, visible);
  const rehearsals = new Rehearsals(run);
  const freeBytes = freeDisk(data.directory);
  const alerts = new AlertWatch(run, data.store, freeBytes, log);
  addOperatorApi(app, {
    ...{ run, data, session, access, rehearsals, freeBytes, alerts, onActivate: options.onActivate },
  });
  const sockets = addDonorSockets(app, run, access, options.donorsPerAddress ?? DONORS_PER_ADDRESS);
  addMonitoring(app, run, status, visible);
  limitConnections(app, run, access, options.connectionsPerAddress ?? CONNECTIONS_PER_ADDRESS);

  const snapshots = throttled(SNAPSHOT_INTERVAL_MS, () => run.reception.publish(run.snapshot()));
  run.onChange(snapshots.request);
  let lookedMs = monotonicMs();
  const silence = setInterval(() => {
    const nowMs = monotonicMs();
    // While this process stood still it read nothing: that is nobody's silence.
    const passedMs = Math.min(nowMs - lookedMs, 2 * SILENCE.lookMs);
    lookedMs = nowMs;
    for (const socket of [...sockets]) socket.expire(nowMs, passedMs);
  }, SILENCE.lookMs);

  const close = async (): Promise<void> => {
    clearInterval(silence);
    alerts.close();
    snapshots.cancel();
    run.close();
    await app.close();
  };
  try {
    await app.listen({ host, port });
  } catch (error) {
    await close();
    return refusal(listenProblem(error, host, port));
  }
  log('debug', 'the server listens');
  const endQueue = options.onActivate ? followQueue(run, data.store, options.onActivate) : null;
  void copied(data.store, log);
  const url = addressOf(app, host, access);
  return success({
    url,
    ownDonorUrl: `${url}/#own=${ownKey}`,
    run,
    rehearsals,
    operatorToken: session.token,
    stop: async () => {
      endQueue?.();
      run.shutDown();
      await Promise.race([run.until(({ isAtRest }) => isAtRest), timeout(STOP_LIMIT_MS)]);
      await close();
    },
    close: async () => {
      endQueue?.();
      await close();
    },
  });
}

function application(access: Access, host: string): FastifyInstance {
  const { tls, trustProxy } = access;
  const options: FastifyServerOptions = {
    ...{ logger: false, bodyLimit: 64 * 1024, forceCloseConnections: true },
    ...(trustProxy === undefined ? {} : { trustProxy: [...trustProxy] }),
  };
  // Bodies have limits of their own (slowRequests.ts): by their length, not one for all.
  const patience = {
    headersTimeout: HEADERS_LIMIT_MS,
    requestTimeout: 0,
    connectionsCheckingInterval: CONNECTION_CHECK_MS,
  };
  const serverFactory = (handler: RequestListener) =>
    tls === undefined ? createHttpServer(patience, handler) : createSecureServer({ ...tls, ...patience }, handler);
  const app = Fastify({ ...options, serverFactory });
  const names = knownNames(host, access);
  app.addHook('onRequest', async ({ headers, ip, socket }, reply) => {
    // What a proxy that is trusted says its server is called is the proxy's own affair.
    const isProxied = trustProxy !== undefined && ip !== socket.remoteAddress;
    if (!isProxied && !isKnownHost(headers.host, names)) return problem(reply, 421, UNKNOWN_HOST);
  });
  // A WebSocket that was refused has no parser any more that would close it.
  app.addHook('onResponse', async ({ headers, socket }) => {
    if (headers.upgrade !== undefined) socket.destroySoon();
  });
  return app;
}

function activeRun({ data, runName, log, ...options }: ServerOptions, ownKey: string, recorder?: Recorder): ActiveRun {
  const row = data.store.run(runName);
  invariant(row, `run ${runName} is in the store`);
  data.store.setActive(runName);
  const { stages, microBatches, schedule, chunks, pairs, warmup, plan, groupPlans, auto, replicas } = options;
  const said = { stages, microBatches, schedule, chunks, pairs, warmup, plan, groupPlans, auto, replicas };
  const wished = Object.entries(said).filter(([, wish]) => wish !== undefined);
  return new ActiveRun({
    ...planSearch(),
    ...options,
    wishes: Object.fromEntries(wished),
    store: data.store,
    blobs: data.blobs,
    name: runName,
    ownKey,
    ...(recorder === undefined ? {} : { recorder }),
    log: boundedLog(log, monotonicMs),
    expectedDonors: options.expectedDonors ?? null,
    networkName: (address) => addressKey(data.store, address),
    isBlocked: (address) => data.store.isBlocked(addressKey(data.store, address)),
  });
}

/** A flood from one address is cut before it costs more than its acceptance. */
function limitConnections(app: FastifyInstance, run: ActiveRun, { trustProxy = [] }: Access, most: number): void {
  const limit = new AddressLimit(most);
  const isProxy = among(trustProxy);
  app.server.maxConnections = CONNECTIONS;
  app.server.on('connection', (socket: Socket) => {
    if (isProxy(socket.remoteAddress ?? '')) return;
    const leave = limit.enter(networkOf(socket.remoteAddress ?? ''));
    if (leave !== null) {
      socket.once('close', leave);
      return;
    }
    run.counts.refusedConnection();
    socket.destroy();
  });
}

/** healthz: this process answers. readyz: it would train, if donors came. */
function addMonitoring(app: FastifyInstance, run: ActiveRun, status: () => PublicStatus, visible: Visible): void {
  const phaseFor = (request: FastifyRequest) =>
    visible.refusal('status', request) === null ? { phase: run.phase } : {};
  app.get('/healthz', async (request) => ({ ok: true, ...phaseFor(request) }));
  app.get('/readyz', async (request, reply) => {
    const reason = run.standsSentence;
    const ready = run.phase !== 'diverged' && run.phase !== 'stopped' && reason === null;
    const body = { ok: ready, ...phaseFor(request), ...(reason === null ? {} : { reason }) };
    return reply.code(ready ? 200 : 503).send(body);
  });
  app.get('/metrics', { onRequest: visible.only('status') }, async ({ headers }, reply) => {
    const isOpen = headers.accept?.includes('application/openmetrics-text') ?? false;
    return reply.type(isOpen ? OPEN_METRICS_TYPE : METRICS_TYPE).send(await run.counts.text(withLinks(run), isOpen));
  });
  app.get('/api/status', { ...STATUS_CALLS, onRequest: visible.only('status') }, async () => status());
}

function addDonorSockets(app: FastifyInstance, run: ActiveRun, access: Access, perAddress: number): Set<DonorSocket> {
  const sockets = new Set<DonorSocket>();
  const limit = new AddressLimit(perAddress);
  const arrivals = new Arrivals();
  const isHere = (headers: IncomingHttpHeaders, ip: string): boolean =>
    access.trustProxy === undefined && isLoopback(ip) && !isForwarded(headers);
  app.register(async (donors) => {
    donors.addHook('onRequest', async ({ headers, ip }, reply) => {
      if (!isSameOrigin(headers, access)) return problem(reply, 403, 'only the donor page may do this');
      if (!isHere(headers, ip) && !arrivals.may(networkOf(ip)))
        return problem(reply, 503, 'too many come at once: try again later');
    });
    const joins = { rateLimit: { max: JOINS_PER_DONOR * perAddress, timeWindow: 60_000 } };
    donors.get('/api/donor', { websocket: true, config: joins }, (socket, { ip, headers, raw }) => {
      const address = networkOf(ip);
      const leave = limit.enter(address);
      if (leave === null) {
        run.reception.countRefusal('serverFull');
        socket.send(JSON.stringify(refusedFor('serverFull', 'of this address')));
        return socket.close(1013, 'too many donors of this address');
      }
      socket.on('close', leave);
      const bytesRead = (): number => raw.socket.bytesRead;
      const origin = { address, isHere: isHere(headers, ip), bytesRead };
      const donor = new DonorSocket(socket, run.reception, monotonicMs(), origin);
      sockets.add(donor);
      socket.on('close', () => sockets.delete(donor));
    });
  });
  return sockets;
}

function addressOf(app: FastifyInstance, host: string, { tls }: Access): string {
  const address = app.server.address();
  invariant(address !== null && typeof address === 'object', 'the server listens on a port');
  const isAny = host === '0.0.0.0' || host === '::';
  const name = isAny ? 'localhost' : isIP(host) === 6 ? `[${host}]` : host;
  return `${tls ? 'https' : 'http'}://${name}:${address.port}`;
}

function timeout(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
