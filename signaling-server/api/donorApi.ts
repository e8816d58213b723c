/**
 * What a donor fetches and sends over HTTP: token shards, state of a checkpoint, and the shards of the next one. Every
 * call carries the token that `welcome` gave; sizes are bounded by the model before anything is read, and nothing large is
 * ever whole in memory: it goes between socket and disk piece by piece.
 */
import { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { hash } from '../../swarm/fields.ts';
import { type StateKind, savedKinds } from '../../swarm/plan/stateKinds.ts';
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

const tokensParameters = z.object({ hash });
const stateParameters = z.object({ checkpoint: countText, block: z.string().max(40) });
const stateQuery = (kinds: readonly StateKind[]) => z.object({ kind: z.enum(kinds), from: countText, to: countText });
const uploadQuery = z.object({
  epoch: countText,
  step: countText,
  block: z.string().max(40),
  from: countText,
  to: countText,
});

export function addDonorApi(app: FastifyInstance, run: ActiveRun, blobs: BlobStore): void {
  const hashes = new Set([...run.document.data.shards, ...(run.document.evaluation?.shards ?? [])]);
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

    api.get('/api/tokens/:hash', limited, async (request, reply) => {
      const parameters = tokensParameters.safeParse(request.params);
      if (!parameters.success || !hashes.has(parameters.data.hash)) return problem(reply, 404, 'no such tokens here');
      const tokens = await blobs.read(parameters.data.hash);
      run.counts.served('tokens', tokens.length);
      return reply
        .header('cache-control', `private, max-age=${YEAR_SECONDS}, immutable`)
        .type('application/octet-stream')
        .send(tokens);
    });

    api.get('/api/state/:checkpoint/:block', limited, stateSender(run, blobs));
    api.put('/api/state', limited, stateTaker(run));
  });
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
