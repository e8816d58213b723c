/**
 * What the dashboard calls: a login with the one-time token, the run's snapshot once or as a stream, and the four
 * commands. Everything but the login wants the session cookie, and every change also a page of this very origin.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { withNumbers } from '../../swarm/islands/rounds.ts';
import { OPERATOR_COMMANDS, type WatchMessage } from '../../swarm/messages/watch.ts';
import { isSameOrigin } from '../http/access.ts';
import { runOfCall } from '../http/calledFor.ts';
import { countText, perMinute, problem, refuse } from '../http/calls.ts';
import { throttled } from '../http/throttled.ts';
import { monotonicMs, wallMs } from '../monitoring/clock.ts';
import { addOperatorEvent } from '../run/history.ts';
import type { ActiveRun } from '../run/run.ts';
import { storedDocument } from '../store/runDocument.ts';
import { addOperatorControls } from './controls.ts';
import type { OperatorContext } from './operatorContext.ts';
import { type OperatorSource, operatorSource, stepTimeline, withTraffic } from './source.ts';
import { mayCall } from './who.ts';

const LOGINS_PER_MINUTE = 10;
/** Steps of a long run, spread evenly: a picture shows no more. */
const SPREAD_STEPS = 4_000;
const CALLS_PER_MINUTE = 240;
/** At most four pictures a second. */
export const WATCH_INTERVAL_MS = 250;
/** A dashboard that has so much unread gets no new picture until it has read. */
const UNREAD_BYTES_LIMIT = 1024 * 1024;

/** Of a WebSocket whose session ended. */
const LOGGED_OUT = 4401;

const loginBody = z.object({ token: z.string().max(200) });
const stepQuery = z.object({ step: countText });
const stepsQuery = z.object({ run: z.string().max(1_000), until: countText.optional() });
const commandBody = z.object({ command: z.enum(OPERATOR_COMMANDS) });

export function addOperatorApi(app: FastifyInstance, context: OperatorContext): void {
  const { run, data, session, rehearsals, freeBytes } = context;
  const { store } = data;
  /** Only who may change the run is told how others are invited to it. */
  const ofSession = (cookie: string | undefined): Pick<WatchMessage, 'role' | 'invite'> => {
    const role = session.roleOf(cookie) ?? 'viewer';
    const invite = run.network.invitation.token;
    return { role, ...(role === 'operator' && invite !== null ? { invite } : {}) };
  };
  const pictures = (cookie: string | undefined) => {
    const source = operatorSource(run, store, rehearsals, monotonicMs, freeBytes);
    return () => ({ ...source(), ...ofSession(cookie) });
  };

  addLogin(app, context);
  app.register(async (api) => {
    api.addHook('onRequest', onlyWhoMay(context));

    api.post('/api/operator/logout', perMinute(CALLS_PER_MINUTE), async ({ headers: { cookie } }, reply) => {
      note(context, 'logged out', cookie);
      return reply.header('set-cookie', session.logout(cookie)).send({ ok: true });
    });
    api.post('/api/operator/viewer', perMinute(LOGINS_PER_MINUTE), async ({ headers: { cookie } }) => {
      note(context, 'made a viewer’s link', cookie);
      return { token: session.viewerToken() };
    });

    api.post('/api/operator/command', perMinute(CALLS_PER_MINUTE), async (request, reply) => {
      const body = commandBody.safeParse(request.body);
      if (!body.success) return problem(reply, 400, 'expected a command: start, pause, resume or stop');
      run.command(body.data.command, session.nameOf(request.headers.cookie));
      return { ok: true };
    });
    api.get('/api/snapshot', perMinute(CALLS_PER_MINUTE), async ({ headers: { cookie } }) => pictures(cookie)());
    addOperatorControls(api, context);
    api.get('/api/watch', { websocket: true }, (socket, { headers: { cookie } }) => {
      watch(socket, run, pictures(cookie), () => session.roleOf(cookie) !== null);
    });
    api.get('/api/operator/timeline', perMinute(CALLS_PER_MINUTE), async (request, reply) => {
      const query = stepQuery.safeParse(request.query);
      if (!query.success) return problem(reply, 400, 'expected the number of a step');
      const timeline = stepTimeline(run, store, query.data.step);
      return timeline ?? problem(reply, 404, 'no timeline of this step is kept');
    });
    api.get('/api/operator/steps', perMinute(CALLS_PER_MINUTE), committedSteps(context));
  });
}

function note({ run, data, session }: OperatorContext, what: string, cookie: string | undefined): void {
  run.keep(() => addOperatorEvent(data.store, run.name, what, session.nameOf(cookie), run.committedSteps, wallMs()));
}

function addLogin(app: FastifyInstance, context: OperatorContext): void {
  const { session, access } = context;
  const isSecure = access.tls !== undefined || access.publicUrl?.startsWith('https:') === true;
  app.post('/api/operator/login', perMinute(LOGINS_PER_MINUTE), async (request, reply) => {
    const body = loginBody.safeParse(request.body);
    if (!body.success || !isSameOrigin(request.headers, access))
      return problem(reply, 400, 'expected a token, from the dashboard');
    const cookie = session.login(body.data.token, isSecure);
    if (cookie === null)
      return problem(
        reply,
        401,
        'this token was used before or is unknown; the server prints a new one after each use, and a dashboard makes them for viewers',
      );
    note(context, `logged in as ${session.roleOf(cookie) === 'viewer' ? 'a viewer' : 'an operator'}`, cookie);
    return reply.header('set-cookie', cookie).send({ ok: true });
  });
}

/** Whose session it is, and what it may do: else nothing behind it is called. */
const onlyWhoMay =
  ({ run, session, access }: OperatorContext) =>
  async (request: FastifyRequest, reply: FastifyReply) => {
    const role = session.roleOf(request.headers.cookie);
    if (role === null) return refuse(reply, 401, 'log in first');
    const changes = request.method !== 'GET' || request.headers.upgrade !== undefined;
    if (changes && !isSameOrigin(request.headers, access)) return refuse(reply, 403, 'only the dashboard may do this');
    if (!mayCall(role, `${request.method} ${request.routeOptions.url}`))
      return refuse(reply, 403, 'you are here as a viewer: only an operator may do this');
    const asked = runOfCall(request.method, request.url);
    if (asked !== undefined && asked !== run.name)
      return refuse(reply, 404, `no run of this name is active here; the one that is: ${run.name}`);
  };

const committedSteps =
  ({ run, data: { store } }: OperatorContext) =>
  async (request: FastifyRequest, reply: FastifyReply) => {
    const query = stepsQuery.safeParse(request.query);
    if (!query.success || store.run(query.data.run) === null) return problem(reply, 404, 'there is no such run');
    const { run: name, until } = query.data;
    const committed = store.committedSteps(name);
    const spread = store.stepsSpread(name, Math.min(until ?? committed, committed), SPREAD_STEPS);
    const steps = withNumbers(storedDocument(store, name).file.train, spread);
    const known = name === run.name ? withTraffic(run, steps) : steps;
    return { steps: known, evaluations: [...store.evaluations(name)] };
  };

/** A picture at once, then one after each change, never two within `WATCH_INTERVAL_MS`; steps go out once. */
function watch(socket: WebSocket, run: ActiveRun, source: OperatorSource, isLoggedIn: () => boolean): void {
  const sender = throttled(WATCH_INTERVAL_MS, () => {
    if (!isLoggedIn()) return socket.close(LOGGED_OUT, 'log in first');
    // It reads slowly: the next picture has everything that this one would have had.
    if (socket.bufferedAmount > UNREAD_BYTES_LIMIT) return sender.request();
    socket.send(JSON.stringify(source()));
  });
  const forget = run.onChange(sender.request);
  const end = (): void => {
    forget();
    sender.close();
  };
  socket.on('close', end);
  socket.on('error', end);
  socket.on('message', () => socket.close(1008)); // it only listens
  sender.request();
}
