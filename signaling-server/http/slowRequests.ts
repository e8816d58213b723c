/**
 * How long a request may take to arrive, and how many of one address may be on their way: a body that comes drop by drop
 * holds a connection and its memory. Large bodies are the donors' shards, over lines as slow as donors may say.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LEAST_BYTES_PER_MS } from '../../swarm/coordinator/deadlines.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { AddressLimit } from './addressLimit.ts';
import { problem } from './calls.ts';
import { networkOf } from './networkOf.ts';

/** Of any body, whatever its length. */
const BODY_LIMIT_MS = 10_000;
/** Nothing came for so long. */
const PAUSE_LIMIT_MS = 20_000;
const LOOK_MS = 1_000;
/** Bodies of one address on their way at once: each donor of a class sends one or two. */
const BODIES_PER_ADDRESS = 256;

export function limitBodies(app: FastifyInstance): void {
  const limit = new AddressLimit(BODIES_PER_ADDRESS);
  app.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    const { headers, raw } = request;
    const isBodiless = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
    if (isBodiless) return;
    const leave = limit.enter(networkOf(request.ip));
    if (leave === null) return problem(reply, 429, 'too much is on its way from your address: try again later');
    const over = untilArrived(request);
    const end = (): void => {
      raw.off('end', end).off('close', end);
      over();
      leave();
    };
    raw.once('end', end).once('close', end);
  });
}

/** Cuts the connection where the body is late; call the answer when it is here. */
function untilArrived({ headers, raw }: FastifyRequest): () => void {
  const limitMs = BODY_LIMIT_MS + Number(headers['content-length'] ?? 0) / LEAST_BYTES_PER_MS;
  const beganMs = monotonicMs();
  let seen = { bytes: raw.socket.bytesRead, atMs: beganMs };
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    const bytes = raw.socket.bytesRead;
    if (bytes > seen.bytes) seen = { bytes, atMs: nowMs };
    if (nowMs - beganMs > limitMs || nowMs - seen.atMs > PAUSE_LIMIT_MS) raw.socket.destroy();
  }, LOOK_MS);
  return () => clearInterval(timer);
}
