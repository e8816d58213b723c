/**
 * What the dashboard calls: a login with the one-time token, the run's snapshot once or as a stream, and the four
 * commands. Everything but the login wants the session cookie, and every change also a page of this very origin.
 */
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { OPERATOR_COMMANDS, type WatchMessage } from '../swarm/watch.ts';
import { type Access, isSameOrigin } from './access.ts';
import type { OperatorSession } from './operatorSession.ts';
import type { ActiveRun } from './run.ts';

const LOGINS_PER_MINUTE = 10;
const CALLS_PER_MINUTE = 240;
/** At most four pictures a second. */
const WATCH_INTERVAL_MS = 250;
/** A dashboard that has so much unread gets no new picture until it has read. */
const UNREAD_BYTES_LIMIT = 1024 * 1024;
/** Steps that a new dashboard is told of. */
export const RECENT_STEPS = 1_000;

const loginBody = z.object({ token: z.string().max(200) });
const commandBody = z.object({ command: z.enum(OPERATOR_COMMANDS) });

/** What the dashboard shows: steps from `from` on, as far as they are recent. */
export type OperatorSource = (from: number) => WatchMessage;

const problem = (reply: FastifyReply, status: number, sentence: string): FastifyReply =>
  reply.code(status).send({ error: sentence });

export function addOperatorApi(
  app: FastifyInstance,
  run: ActiveRun,
  source: OperatorSource,
  session: OperatorSession,
  access: Access,
): void {
  const isSecure = access.tls !== undefined || access.publicUrl?.startsWith('https:') === true;
  const perMinute = (max: number) => ({ config: { rateLimit: { max, timeWindow: 60_000 } } });

  app.post('/api/operator/login', perMinute(LOGINS_PER_MINUTE), async (request, reply) => {
    const body = loginBody.safeParse(request.body);
    if (!body.success || !isSameOrigin(request.headers, access))
      return problem(reply, 400, 'expected a token, from the dashboard');
    const cookie = await session.login(body.data.token, isSecure);
    if (cookie === null) return problem(reply, 401, 'this is not the token that the server printed last');
    return reply.header('set-cookie', cookie).send({ ok: true });
  });

  app.register(async (api) => {
    api.addHook('onRequest', async (request, reply) => {
      if (!(await session.isOperator(request.headers.cookie))) return problem(reply, 401, 'log in first');
      const changes = request.method !== 'GET' || request.headers.upgrade !== undefined;
      if (changes && !isSameOrigin(request.headers, access))
        return problem(reply, 403, 'only the dashboard may do this');
    });

    api.post('/api/operator/command', perMinute(CALLS_PER_MINUTE), async (request, reply) => {
      const body = commandBody.safeParse(request.body);
      if (!body.success) return problem(reply, 400, 'expected a command: start, pause, resume or stop');
      run.command(body.data.command);
      return { ok: true };
    });
    api.get('/api/snapshot', perMinute(CALLS_PER_MINUTE), async () => source(0));
    api.get('/api/watch', { websocket: true }, (socket) => watch(socket, run, source));
  });
}

/** A picture at once, then one after each change, never two within `WATCH_INTERVAL_MS`; steps go out once. */
function watch(socket: WebSocket, run: ActiveRun, source: OperatorSource): void {
  let next = 0;
  const sender = throttled(WATCH_INTERVAL_MS, () => {
    // It reads slowly: the next picture has everything that this one would have had.
    if (socket.bufferedAmount > UNREAD_BYTES_LIMIT) return sender.request();
    const { committedSteps } = run;
    // After a roll-back steps have other values than those that were sent.
    const message = source(next > committedSteps ? 0 : next);
    next = committedSteps;
    socket.send(JSON.stringify(message));
  });
  const forget = run.onChange(sender.request);
  const end = (): void => {
    forget();
    sender.cancel();
  };
  socket.on('close', end);
  socket.on('error', end);
  socket.on('message', () => socket.close(1008)); // it only listens
  sender.request();
}

/** Runs `work` soon after a request, at most once in `intervalMs`. */
export function throttled(intervalMs: number, work: () => void): { request(): void; cancel(): void } {
  let timer: NodeJS.Timeout | undefined;
  let lastMs = Number.NEGATIVE_INFINITY;
  const request = (): void => {
    if (timer !== undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        lastMs = Date.now();
        work();
      },
      Math.max(0, lastMs + intervalMs - Date.now()),
    );
  };
  return { request, cancel: () => clearTimeout(timer) };
}
