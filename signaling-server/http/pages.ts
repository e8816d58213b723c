/** The built pages, with what a browser may do on them. Every answer of the server bears these headers. */
import { existsSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import helmet from '@fastify/helmet';
import rateLimit from '@fastify/rate-limit';
import staticFiles from '@fastify/static';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { storageProblem } from '../files/storageProblem.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { HUGGING_FACE, type Hub, hubOrigins } from './access.ts';
import { failed, problem } from './calls.ts';
import { networkOf } from './networkOf.ts';

/** Of one address, where a call has no limit of its own: pages, their scripts, new connections. */
const CALLS_PER_MINUTE = 3_000;
const TOO_OFTEN = 'this was asked too often from your network address: try again in a minute';

interface PageOptions {
  /** What is said of the run in the head of the donor's page, where a link to it is shared. */
  readonly preview?: (request: FastifyRequest) => string;
  /** Origins of the sites that may show `/embed` in a frame. */
  readonly embedOn?: readonly string[];
  /** What the dashboard may connect to beside this server. */
  readonly hub?: Hub;
}

/** Callers that are remembered: those who called last. */
const CALLERS_KEPT = 5_000;

interface Window {
  readonly beganMs: number;
  readonly calls: number;
}

type Told = (error: Error | null, result?: { current: number; ttl: number }) => void;

/**
 * What the rate limits of HTTP calls count with: fixed windows, as the plugin's own store has them, by a clock that nobody
 * sets. By the wall clock a step back of a day would keep a window, and whoever is at its limit, for that day.
 */
export class RateStore {
  readonly #windows = new Map<string, Window>();

  /** Called by the plugin for each call: how many this caller made in its window, and how long that goes on. */
  incr(caller: string, told: Told, windowMs: number): void {
    const nowMs = monotonicMs();
    const last = this.#windows.get(caller);
    const isOver = last === undefined || nowMs - last.beganMs >= windowMs;
    const { beganMs, calls } = isOver ? { beganMs: nowMs, calls: 1 } : { ...last, calls: last.calls + 1 };
    this.#windows.delete(caller);
    this.#windows.set(caller, { beganMs, calls });
    const [oldest] = this.#windows.keys();
    if (this.#windows.size > CALLERS_KEPT && oldest !== undefined) this.#windows.delete(oldest);
    told(null, { current: calls, ttl: beganMs + windowMs - nowMs });
  }

  /** Each route counts by itself. */
  child(): RateStore {
    return new RateStore();
  }
}

export async function addPages(
  app: FastifyInstance,
  pages: string | undefined,
  { preview, embedOn = [], hub = HUGGING_FACE }: PageOptions = {},
): Promise<void> {
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'self'"],
        baseUri: ["'none'"],
        connectSrc: ["'self'"],
        frameAncestors: ["'none'"],
        formAction: ["'self'"],
        imgSrc: ["'self'", 'data:'],
        objectSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'"],
        workerSrc: ["'self'"],
      },
    },
    // Isolated from other origins a page's clock is exact to microseconds, which the measurements use.
    crossOriginEmbedderPolicy: true,
    strictTransportSecurity: false,
  });
  const keyGenerator = ({ ip }: FastifyRequest): string => networkOf(ip);
  await app.register(rateLimit, { max: CALLS_PER_MINUTE, timeWindow: 60_000, store: RateStore, keyGenerator });
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    if (error.statusCode === 429) return problem(reply, 429, TOO_OFTEN);
    const reason = storageProblem(error);
    if (reason === null) return failed(reply, error);
    return problem(reply, 503, `the server cannot keep this now, because ${reason}: try again later`);
  });
  app.setNotFoundHandler((_request, reply) => problem(reply, 404, 'there is nothing at this address'));
  if (pages === undefined || !existsSync(pages)) return;
  await app.register(staticFiles, {
    ...{ root: pages, index: 'index.html', cacheControl: false, preCompressed: true },
    setHeaders: (reply, path) => {
      const isNamedByContent = path.startsWith(join(pages, 'assets', sep));
      reply.setHeader('cache-control', isNamedByContent ? 'public, max-age=31536000, immutable' : 'no-cache');
      reply.setHeader('vary', 'accept-encoding');
    },
  });
  for (const [path, file, policy] of PAGES) {
    if (path === '/' && preview) continue;
    const hosts = path === '/operator' ? hubOrigins(hub) : [];
    app.get(path, (_request, reply) => connecting(trusting(reply, policy), hosts).sendFile(`${file}.html`));
  }
  if (preview) {
    const [path, file, policy] = PAGES[0];
    const [before = '', ...after] = readFileSync(join(pages, `${file}.html`), 'utf8').split('</title>');
    app.get(path, (request, reply) =>
      trusting(reply, policy)
        .header('cache-control', 'no-cache')
        .type('text/html')
        .send(`${before}</title>\n    ${preview(request)}${after.join('</title>')}`),
    );
  }
  app.get('/embed', (_request, reply) => framed(trusting(reply, "'none'"), embedOn).sendFile('embed.html'));
}

/** Each with who may say there that a text is a script's address: on the donor's page the one that knows its worker. */
const PAGES = [
  ['/', 'index', 'shoal-worker'],
  ['/operator', 'operator', "'none'"],
  ['/status', 'status', "'none'"],
  ['/talk', 'talk', "'none'"],
] as const;

/** In a frame on these sites, and on no other. */
function framed(reply: FastifyReply, sites: readonly string[]): FastifyReply {
  if (sites.length === 0) return reply;
  const policy = String(reply.getHeader('content-security-policy'));
  // A function: in a text put in its place, `$&` would stand for what was there.
  const named = policy.replace("frame-ancestors 'none'", () => `frame-ancestors ${sites.join(' ')}`);
  return reply
    .removeHeader('x-frame-options')
    .header('cross-origin-resource-policy', 'cross-origin')
    .header('content-security-policy', named);
}

/** To these hosts too, and to no other. */
function connecting(reply: FastifyReply, hosts: readonly string[]): FastifyReply {
  const policy = String(reply.getHeader('content-security-policy'));
  const named = policy.replace("connect-src 'self'", ["connect-src 'self'", ...hosts].join(' '));
  return reply.header('content-security-policy', named);
}

/** No other text becomes script on these pages, not even by mistake: browsers that know Trusted Types see to it. */
function trusting(reply: FastifyReply, trusted: string): FastifyReply {
  const policy = String(reply.getHeader('content-security-policy'));
  const types = `require-trusted-types-for 'script';trusted-types ${trusted}`;
  return reply.header('content-security-policy', `${policy};${types}`);
}
