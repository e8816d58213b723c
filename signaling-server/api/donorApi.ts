/**
 * What a donor fetches and sends over HTTP: token shards, pieces of a base, state of a checkpoint, and the shards of the next one. Every
 * call carries the token that `welcome` gave; sizes are bounded by the model before anything is read, and nothing large is
 * ever whole in memory: it goes between socket and disk piece by piece.
 */
import { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { hash } from '../../swarm/fields.ts';
import { type StateKind, savedKinds } from '../../swarm/plan/stateKinds.ts';
import { keepsEnds } from '../../swarm/run/runFile.ts';
import { UploadError } from '../donors/uploadCheck.ts';
import type { BlobStore } from '../files/blobs.ts';
import { messageOf } from '../files/errorWords.ts';
import { bearer, countText, failed, problem, refuse } from '../http/calls.ts';
import { networkOf } from '../http/networkOf.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { ActiveRun } from '../run/run.ts';
import { stateBytes } from '../store/checkpointState.ts';

/** Calls a minute of one donor: tokens and state come in bursts, and donors of one address must not share a limit. */
const CALLS_PER_MINUTE = 6_000;
const YEAR_SECONDS = 31_536_000;
const FLOAT_BYTES = 4;
/** Donors try again and again while the disk is full. */
const WARN_INTERVAL_MS = 60_000;

const blobParameters = z.object({ hash });
const stateParameters = z.object({ checkpoint: countText, block: z.string().max(40) });
const stateQuery = (kinds: readonly StateKind[]) => z.object({ kind: z.enum(kinds), from: countText, to: countText });
const evidenceQuery = z.object({ audit: countText });
const uploadQuery = z.object({
  epoch: countText,
  step: countText,
  block: z.string().max(40),
  from: countText,
  to: countText,
});

export function addDonorApi(app: FastifyInstance, run: ActiveRun, blobs: BlobStore): void {
  const tokens = new Set([...run.document.data.shards, ...(run.document.evaluation?.shards ?? [])]);
  const base = new Set(run.document.base?.flatMap(({ pieces }) => pieces));
  // A token that nobody has is its address's call: else each made-up one would begin a count of its own.
  const keyGenerator = (request: FastifyRequest): string =>
    run.reception.ofToken(bearer(request)) ?? networkOf(request.ip);
  const limited = { config: { rateLimit: { max: CALLS_PER_MINUTE, timeWindow: 60_000, keyGenerator } } };

  app.register(async (api) => {
    api.addContentTypeParser('application/octet-stream', (_request, body, done) => done(null, body));
    api.addHook('onRequest', async (request, reply) => {
      if (run.reception.ofToken(bearer(request)) === null)
        return refuse(reply, 401, 'this call needs the token of a donor');
    });

    api.setErrorHandler((error: FastifyError, request, reply) => {
      if ((error.statusCode ?? 500) < 500) return failed(reply, error);
      const peer = run.reception.ofToken(bearer(request));
      run.failed(error);
      if (peer !== null && request.method === 'PUT')
        run.reception.throwOut(peer, 'unhandled', `${request.method} ${request.routeOptions.url}`);
      return failed(reply, error);
    });

    const kept = `private, max-age=${YEAR_SECONDS}, immutable`;
    api.get('/api/tokens/:hash', limited, blobSender(run, blobs, 'tokens', tokens, kept));
    // A donor's page keeps its pieces itself.
    api.get('/api/base/:hash', limited, blobSender(run, blobs, 'base', base, 'no-store'));
    api.get('/api/state/:checkpoint/:block', limited, stateSender(run, blobs));
    api.put('/api/state', limited, stateTaker(run));
    api.put('/api/evidence', limited, evidenceTaker(run));
  });
}

/** What a download that broke off asks for: all from a byte on. */
const RANGE = /^bytes=(\d{1,10})-$/;

/** Answers with the bytes of one of these, or those that are still missing. */
function blobSender(
  run: ActiveRun,
  blobs: BlobStore,
  kind: 'tokens' | 'base',
  hashes: ReadonlySet<string>,
  caching: string,
) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const parameters = blobParameters.safeParse(request.params);
    const peer = run.reception.ofToken(bearer(request));
    if (kind === 'tokens' && keepsEnds(run.document.file) && (peer === null || !run.reception.isOwn(peer)))
      return problem(reply, 403, 'tokens are for the operator’s own donors alone');
    if (!parameters.success || !hashes.has(parameters.data.hash)) return problem(reply, 404, `no such ${kind} here`);
    const whole = await blobs.read(parameters.data.hash);
    const from = Number(RANGE.exec(request.headers.range ?? '')?.[1] ?? 0);
    if (from > 0 && from >= whole.length) return problem(reply, 416, `${kind} of ${whole.length} bytes`);
    const bytes = whole.subarray(from);
    run.counts.served(kind, bytes.length);
    if (from > 0) reply.code(206).header('content-range', `bytes ${from}-${whole.length - 1}/${whole.length}`);
    return reply.header('cache-control', caching).type('application/octet-stream').send(bytes);
  };
}

/** Takes what a donor has of an audit's evidence. */
function evidenceTaker(run: ActiveRun) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    if (!(request.body instanceof Readable)) return problem(reply, 415, 'expected application/octet-stream');
    const query = evidenceQuery.safeParse(request.query);
    const peer = run.reception.ofToken(bearer(request));
    if (!query.success || peer === null) return problem(reply, 400, 'expected audit');
    try {
      return { hash: await run.evidence.take(peer, query.data.audit, request.body) };
    } catch (error) {
      if (error instanceof UploadError) return problem(reply, error.status, error.message);
      throw error;
    }
  };
}

/** Answers with a part of a checkpoint's state, to a donor whom the plan has read it. */
function stateSender(run: ActiveRun, blobs: BlobStore) {
  const { islands } = run.document.file.train;
  const kinds = savedKinds(islands);
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const parameters = stateParameters.safeParse(request.params);
    const query = stateQuery(kinds).safeParse(request.query);
    if (!parameters.success || !query.success) return problem(reply, 400, 'expected kind, from and to');
    const found = run.model.blocks.find(({ name }) => name === parameters.data.block);
    const { kind, from, to } = query.data;
    if (!found || from >= to || to > found.elements) return problem(reply, 404, 'the model has no such range');
    const { checkpoint } = parameters.data;
    const part = { checkpoint, block: found.name, kind, range: [from, to] as const };
    const peer = run.reception.ofToken(bearer(request));
    if (peer === null || !run.network.needs.mayRead(peer, part))
      return problem(reply, 403, 'the plan does not have this donor read that');
    const manifest = run.checkpoint(checkpoint);
    if (manifest === null) return problem(reply, 404, `checkpoint ${checkpoint} is not kept`);
    const damage = await run.guard.problem(manifest.step);
    if (damage !== null) return problem(reply, 410, damage);
    const bytes = stateBytes(blobs, manifest, (own) => savedKinds(islands, own), part);
    if (!bytes.ok) return problem(reply, 500, bytes.reason);
    run.counts.served('state', (to - from) * FLOAT_BYTES);
    return reply
      .header('content-length', (to - from) * FLOAT_BYTES)
      .type('application/octet-stream')
      .send(Readable.from(bytes.value, { objectMode: false }));
  };
}

/** Keeps a shard of the next checkpoint. */
function stateTaker(run: ActiveRun) {
  let warnedMs = -Infinity;
  return async (request: FastifyRequest, reply: FastifyReply) => {
    if (!(request.body instanceof Readable)) return problem(reply, 415, 'expected application/octet-stream');
    const query = uploadQuery.safeParse(request.query);
    const peer = run.reception.ofToken(bearer(request));
    if (!query.success || peer === null) return problem(reply, 400, 'expected epoch, step, block, from and to');
    const { from, to, ...rest } = query.data;
    const upload = { ...rest, range: [from, to] as const };
    const length = request.headers['content-length'];
    const sizeBytes = length === undefined ? null : Number(length);
    try {
      return {
        hash: await run.uploads.take(peer, upload, { sizeBytes, chunks: request.body }, run.uploadBegins(peer)),
      };
    } catch (error) {
      if (error instanceof UploadError) {
        if (run.uploads.isWrongAgain(peer, upload))
          run.reception.throwOut(peer, 'faulty', `its part of checkpoint ${upload.step}: ${error.message}`);
        return problem(reply, error.status, error.message);
      }
      // A full disk, say. The donor tries again; what to do about it is the operator's.
      const nowMs = monotonicMs();
      if (nowMs - warnedMs >= WARN_INTERVAL_MS) {
        warnedMs = nowMs;
        run.warn(`A shard of a checkpoint cannot be kept: ${messageOf(error)}`);
      }
      run.couldNotKeep(error);
      return problem(reply, 507, 'the server cannot keep it now');
    }
  };
}
