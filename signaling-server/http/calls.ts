/** How HTTP calls answer: what is wrong in one sentence of JSON, and no more often than is said. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { count } from '../../swarm/fields.ts';

export const problem = (reply: FastifyReply, status: number, sentence: string): FastifyReply =>
  reply.code(status).send({ error: sentence });

export const perMinute = (max: number) => ({ config: { rateLimit: { max, timeWindow: 60_000 } } });

/** The token or key that a call carries; empty: none. */
export const bearer = ({ headers }: FastifyRequest): string => (headers.authorization ?? '').replace(/^Bearer /, '');

/** A count in a path or a query, where everything is text. */
export const countText = z.coerce.number().pipe(count);
