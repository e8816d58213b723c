/**
 * The server of one run: pages, the donors' sockets, their HTTP calls and the dashboard's. It only wires: what is
 * decided is decided in swarm/coordinator, what is kept is kept by the store.
 */

import type { Server as HttpServer } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { PlanWishes } from '../swarm/autoplan/wishes.ts';
import { given, invariant, type Result, refusal, success } from '../swarm/base.ts';
import type { ApiMode } from '../swarm/messages/apiKeys.ts';
import type { RunWant } from '../swarm/messages/neededMost.ts';
import type { PublicStatus } from '../swarm/messages/publicStatus.ts';
import { addAnswerApi } from './answers/answerApi.ts';
import { ApiCallers } from './answers/apiCallers.ts';
import { ApiKeys } from './answers/apiKeys.ts';
import { donorsFirst } from './answers/donorAnswers.ts';
import { ProcessorAnswerer } from './answers/processorAnswerer.ts';
import { RunTexts } from './answers/runTexts.ts';
import { addDonorApi } from './api/donorApi.ts';
import { addMemberApi } from './api/memberApi.ts';
import { addPreviewPicture, originOf, previewTags } from './api/preview.ts';
import { publicStatus } from './api/publicStatus.ts';
import { addTalkApi, mayTalk, type TalkOptions } from './api/talkApi.ts';
import { type PublicView, Visible } from './api/visible.ts';
import { DonorSocket, SOCKET_LIMITS } from './donors/donorSocket.ts';
import type { DonorWire, Origin } from './donors/donorWire.ts';
import { addDonorDoor } from './donors/door.ts';
import type { NetworkOptions } from './donors/network.ts';
import { watchSilence } from './donors/silence.ts';
import { freeDisk } from './files/storageProblem.ts';
import { type Access, HUGGING_FACE, type Hub } from './http/access.ts';
import { addressOf, application, limitConnections } from './http/application.ts';
import { perMinute } from './http/calls.ts';
import { listenProblem } from './http/listening.ts';
import { isOneLine, networkOf } from './http/networkOf.ts';
import { addPages } from './http/pages.ts';
import { limitAnswers, limitBodies } from './http/slowRequests.ts';
import { throttled } from './http/throttled.ts';
import { addWebSockets } from './http/webSockets.ts';
import { monotonicMs } from './monitoring/clock.ts';
import { boundedLog, type Log } from './monitoring/log.ts';
import { METRICS_TYPE, OPEN_METRICS_TYPE } from './monitoring/metrics.ts';
import { AlertWatch } from './operator/alertWatch.ts';
import { addOperatorApi } from './operator/api.ts';
import { addressKey } from './operator/controls.ts';
import { followQueue } from './operator/queue.ts';
import { Rehearsals } from './operator/rehearsals.ts';
import { followEvaluations } from './operator/rightAnswers.ts';
import { followedSession, newSessionKey, operatorSession } from './operator/session.ts';
import { withLinks } from './operator/source.ts';
import { type PlanSearch, planSearch } from './planning/planThread.ts';
import { openRecorder, type Recorder } from './run/recorder.ts';
import { ActiveRun, runWant } from './run/run.ts';
import type { SiteRuns } from './run/siteRuns.ts';
import { copied, loadableProblem } from './store/checkpoints.ts';
import { type DataDirectory, whereKept } from './store/dataDirectory.ts';
import { cardOf } from './store/runCard.ts';
import { storedDocument, type WindowCounts, windowCounts } from './store/runDocument.ts';

export const DEFAULT_PORT = 8080;
/** Donors see the run at most so often; it is for people. */
const SNAPSHOT_INTERVAL_MS = 1_000;
/** How long a stop waits for the step in progress and its checkpoint. */
const STOP_LIMIT_MS = 180_000;
/** Of the public page, which asks twelve times a minute. */
const STATUS_CALLS = perMinute(120);

export interface ServerOptions extends PlanWishes, NetworkOptions {
  readonly access?: Access;
  readonly data: DataDirectory;
  readonly runName: string;
  readonly log: Log;
  /** Folder of models' folders that the dashboard may begin runs from. */
  readonly models?: string;
  /** In place of the plan thread: who searches for plans. */
  readonly search?: PlanSearch;
  /** Origins of the sites that may show `/embed` in a frame. */
  readonly embedOn?: readonly string[];
  /** Where its dashboard may open pull requests; absent: at Hugging Face. */
  readonly hub?: Hub;
  /** Folder with the built pages; without it there are only the calls. */
  readonly pages?: string;
  /** Who may ask a model. */
  readonly api?: ApiMode;
  /** What anyone may see of a run that is by invitation. */
  readonly publicView?: PublicView;
  readonly host?: string;
  /** 0: any free one. */
  readonly port?: number;
  /** It does not listen: connections are handed to it, of clients who know it by this address. */
  readonly knownAs?: string;
  /** Fixed number of donors, all of whom compute: no step before they are there. Null: whoever comes. */
  readonly expectedDonors?: number | null;
  readonly steps?: number;
  /** In place of the run file's `trust.audit`. */
  readonly audit?: number;
  readonly metricsPath?: string;
  /** Every event of the decisions is appended to it. */
  readonly recordPath?: string;
  /** What the operator's own donors say; absent: a secret of the store, which this server's own donors alone know. */
  readonly ownKey?: string;
  readonly maxDonors?: number;
  readonly donorsPerAddress?: number;
  readonly connectionsPerAddress?: number;
  readonly gatherLimitMs?: number | null;
  /** The other runs of its site; absent: there are none. */
  readonly site?: SiteRuns;
  /** The operator chose another run of the data directory; absent: this server is for one run alone. */
  readonly onActivate?: (run: string) => void;
  /** Told every operator token: the first one, and one after each login. */
  readonly onOperatorToken?: (token: string) => void;
}

export interface Server {
  readonly url: string;
  /** To be handed connections, and donors whose sockets end elsewhere. */
  readonly http: HttpServer;
  donorCame(wire: DonorWire, origin: Origin): void;
  want(): RunWant;
  /** What a donor opens that this server's own command starts: by it the server knows that it is none of the others. */
  readonly ownDonorUrl: string;
  readonly run: ActiveRun;
  /** To be told of the donors that its own command opened. */
  readonly rehearsals: Rehearsals;
  operatorToken(): string;
  /** The token of another process of the site, which is told when it is used; call the answer to forget it. */
  alsoOpenedBy(token: string, used: () => void): () => void;
  /** Stops at the next step boundary, with everything saved, and closes. */
  stop(): Promise<void>;
  /** Closes at once; what is committed stays committed. */
  close(): Promise<void>;
}

export async function createServer(options: ServerOptions): Promise<Result<Server>> {
  const { data, host = 'localhost', port = DEFAULT_PORT, access = {}, hub = HUGGING_FACE, log } = options;
  const begun = await beginRun(options);
  if (!begun.ok) return begun;
  const { run, ownKey } = begun.value;
  const app = application(access, host, options.knownAs === undefined);
  app.addHook('onSend', async ({ method, url }, { statusCode }) => {
    // Who asked for something to be kept hears of it when it is; that it is not is said at once. Of answers nothing is kept.
    if (method !== 'GET' && statusCode < 500 && !/^\/(v1|talk)\//.test(url)) await data.store.kept();
  });
  const sessions = {
    saved: data.store.setting('sessions'),
    save: (text: string) => run.keep(() => data.store.saveSetting('sessions', text)),
  };
  const session = {
    ...operatorSession(sessions, (token) => options.onOperatorToken?.(token)),
    // They are the site's.
    ...(options.site?.isBeside ? followedSession(() => data.store.setting('sessions')) : {}),
  };
  limitAnswers(app);
  limitBodies(app);
  await addWebSockets(app, SOCKET_LIMITS);
  const visible = new Visible(run, options.publicView ?? 'nothing', (cookie) => session.roleOf(cookie) !== null);
  const status = publicStatus(run, data.store);
  const preview = (request: FastifyRequest): string => {
    const isSeen = visible.refusal('status', request) === null;
    const purpose = isSeen ? (cardOf(data.store, run.name)?.purpose ?? '') : '';
    return previewTags({ status: isSeen ? status() : null, purpose }, originOf(request, access));
  };
  await addPages(app, options.pages, { preview, embedOn: options.embedOn ?? [], hub });
  addPreviewPicture(app, status, visible);
  addDonorApi(app, run, data.blobs);
  const own = { processor: new ProcessorAnswerer(data), texts: new RunTexts(data) };
  addMemberApi(app, { run, data, access, visible, own, site: options.site });
  const keys = new ApiKeys(data.store);
  const callers = new ApiCallers({ mode: options.api ?? 'keys', keys, ownKey });
  const answerer = donorsFirst(run, own.processor);
  const talk = { store: data.store, texts: own.texts, answerer, callers, run, access, visible };
  const endEvaluations = followEvaluations({ run, data, texts: own.texts, answerer });
  addAnswerApi(app, talk);
  addTalkApi(app, talk);
  const rehearsals = new Rehearsals(run);
  const freeBytes = freeDisk(data.directory);
  const onActivate =
    options.onActivate &&
    ((next: string): void => {
      run.outlook.changesTo = next;
      run.tellWatchers();
      options.onActivate?.(next);
    });
  const alerts = new AlertWatch(run, data.store, freeBytes, log);
  addOperatorApi(app, {
    ...{ run, data, session, access, hub, rehearsals, own, keys, freeBytes, alerts, onActivate },
    models: options.models ?? null,
    apiMode: callers.mode,
    site: options.site,
  });
  const sockets = new Set<DonorSocket>();
  const donorCame = (wire: DonorWire, origin: Origin): void => {
    const donor = new DonorSocket(wire, run.reception, monotonicMs(), origin);
    sockets.add(donor);
    wire.on('close', () => sockets.delete(donor));
  };
  const refused = (): void => run.reception.countRefusal('serverFull');
  addDonorDoor(app, { access, perAddress: options.donorsPerAddress, came: donorCame, refused });
  const want = (): RunWant => runWant(run, sockets.size);
  addMonitoring(app, talk, status);
  app.get('/api/runs', { ...STATUS_CALLS, onRequest: visible.only('status') }, async () => ({
    runs: options.site?.wants() ?? [want()],
  }));
  limitConnections(app.server, access, () => run.counts.refusedConnection(), options.connectionsPerAddress);

  const snapshots = throttled(SNAPSHOT_INTERVAL_MS, () => run.reception.publish(run.snapshot()));
  run.onChange(snapshots.request);
  const endSilence = watchSilence(sockets);

  const close = async (): Promise<void> => {
    endSilence();
    alerts.close();
    snapshots.close();
    endEvaluations();
    run.close();
    own.processor.close();
    own.texts.close();
    await app.close();
    app.server.closeAllConnections(); // of a server that does not listen nobody else does
  };
  try {
    await (options.knownAs === undefined ? app.listen({ host, port }) : app.ready());
  } catch (error) {
    await close();
    return refusal(listenProblem(error, host, port));
  }
  log('debug', 'the server listens');
  const endQueue = onActivate ? followQueue(run, data.store, onActivate) : null;
  void copied(data.store, log);
  const url = options.knownAs ?? addressOf(app.server, host, access);
  return success({
    url,
    http: app.server,
    donorCame,
    want,
    ownDonorUrl: `${url}/#own=${ownKey}`,
    run,
    rehearsals,
    operatorToken: session.token,
    alsoOpenedBy: session.alsoOpenedBy,
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

/** Where the run is to be written to before anything is served, and cannot, there is no server. */
async function beginRun(options: ServerOptions): Promise<Result<{ readonly run: ActiveRun; readonly ownKey: string }>> {
  const { data, runName, recordPath, log } = options;
  const warn = (text: string): void => log('warn', text);
  const recorder = recordPath === undefined ? null : openRecorder(recordPath, warn);
  if (recorder?.ok === false) return recorder;
  const begun = await whereKept(data, async () => {
    const problem = await loadableProblem(data, runName, warn);
    if (problem !== null) return refusal(`run ${runName}: ${problem}`);
    const ownKey = options.ownKey ?? data.store.secret('ownDonorKey', newSessionKey);
    addressKey(data.store, ''); // not with the first donor, whose fault a full disk would not be
    const counts = await windowCounts(storedDocument(data.store, runName), data.blobs);
    return success({ run: activeRun(options, ownKey, counts, recorder?.value), ownKey });
  });
  if (!begun.ok) recorder?.value.close();
  return begun;
}

function activeRun(
  { data, runName, log, ...options }: ServerOptions,
  ownKey: string,
  counts: WindowCounts,
  recorder?: Recorder,
): ActiveRun {
  const row = data.store.run(runName);
  invariant(row, `run ${runName} is in the store`);
  data.store.setActive(runName);
  const { stages, microBatches, schedule, chunks, pairs, warmup, plan, groupPlans, auto, replicas } = options;
  return new ActiveRun({
    ...planSearch(),
    ...options,
    wishes: given({ stages, microBatches, schedule, chunks, pairs, warmup, plan, groupPlans, auto, replicas }),
    store: data.store,
    blobs: data.blobs,
    name: runName,
    windowCounts: counts,
    ownKey,
    ...given({ recorder }),
    tokenPrefix: options.site?.tokenPrefix ?? '',
    // What all processes of the site remember of addresses.
    ...given({ losses: options.site?.losses, wrongInvitations: options.site?.wrongInvitations }),
    log: boundedLog(log, monotonicMs),
    expectedDonors: options.expectedDonors ?? null,
    networkName: (address) => addressKey(data.store, address),
    isOneLine,
    isBlocked: (address) => data.store.isBlocked(addressKey(data.store, address)),
  });
}

/** healthz: this process answers. readyz: it would train, if donors came. */
function addMonitoring(app: FastifyInstance, talk: TalkOptions, status: () => PublicStatus): void {
  const { run, visible } = talk;
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
  app.get('/api/status', { ...STATUS_CALLS, onRequest: visible.only('status') }, async (request) => ({
    ...status(),
    ...(run.reception.isBlocked(networkOf(request.ip)) && { isBlocked: true }),
    ...(mayTalk(talk, request) && { mayTalk: true }),
  }));
}

function timeout(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
