/**
 * What a donor fetches and sends over HTTP: token shards, state of a checkpoint, and the shards of the next one. Every
 * call carries the token that `welcome` gave; sizes are bounded by the model before anything is read.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { BlobStore } from './blobs.ts';
import { readState, STATE_KINDS, shardBytes } from './checkpointState.ts';
import type { ActiveRun } from './run.ts';

/** Calls a minute of one donor: tokens and state come in bursts, and donors of one address must not share a limit. */
const CALLS_PER_MINUTE = 6_000;
const YEAR_SECONDS = 31_536_000;

const count = z.coerce.number().int().min(0).max(0xffffffff);
const tokensParameters = z.object({ hash: z.string().regex(/^[0-9a-f]{64}$/) });
const stateParameters = z.object({ checkpoint: count, block: z.string().max(40) });
const stateQuery = z.object({ kind: z.enum(STATE_KINDS), from: count, to: count });

const bearer = (request: FastifyRequest): string => (request.headers.authorization ?? '').replace(/^Bearer /, '');

const problem = (reply: FastifyReply, status: number, sentence: string): FastifyReply =>
  reply.code(status).send({ error: sentence });

export function addDonorApi(app: FastifyInstance, run: ActiveRun, blobs: BlobStore): void {
  const hashes = new Set([...run.document.data.shards, ...(run.document.evaluation?.shards ?? [])]);
  const largestShard = Math.max(...run.model.blocks.map(({ elements }) => shardBytes([0, elements], true)));
  const rateLimit = { max: CALLS_PER_MINUTE, timeWindow: 60_000, keyGenerator: bearer };

  app.register(async (api) => {
    api.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
      done(null, body),
    );
    api.addHook('onRequest', async (request, reply) => {
      if (run.donorOfToken(bearer(request)) === null)
        return problem(reply, 401, 'this call needs the token of a donor');
    });

    api.get('/api/tokens/:hash', { config: { rateLimit } }, async (request, reply) => {
      const parameters = tokensParameters.safeParse(request.params);
      if (!parameters.success || !hashes.has(parameters.data.hash)) return problem(reply, 404, 'no such tokens here');
      return reply
        .header('cache-control', `private, max-age=${YEAR_SECONDS}, immutable`)
        .type('application/octet-stream')
        .send(await blobs.read(parameters.data.hash));
    });

    api.get('/api/state/:checkpoint/:block', { config: { rateLimit } }, async (request, reply) => {
      const parameters = stateParameters.safeParse(request.params);
      const query = stateQuery.safeParse(request.query);
      if (!parameters.success || !query.success) return problem(reply, 400, 'expected kind, from and to');
      const found = run.model.blocks.find(({ name }) => name === parameters.data.block);
      const { kind, from, to } = query.data;
      if (!found || from >= to || to > found.elements) return problem(reply, 404, 'the model has no such range');
      const manifest = run.checkpoint(parameters.data.checkpoint);
      if (manifest === null) return problem(reply, 404, `checkpoint ${parameters.data.checkpoint} is not kept`);
      const bytes = await readState(blobs, manifest, found.name, kind, [from, to]);
      if (!bytes.ok) return problem(reply, 500, bytes.reason);
      return reply.type('application/octet-stream').send(Buffer.from(bytes.value.buffer));
    });

    api.put('/api/state', { config: { rateLimit }, bodyLimit: largestShard }, async (request, reply) => {
      if (!Buffer.isBuffer(request.body)) return problem(reply, 415, 'expected application/octet-stream');
      if (request.body.length === 0) return problem(reply, 400, 'expected the bytes of a shard');
      return { hash: await blobs.put(request.body) };
    });
  });
}
