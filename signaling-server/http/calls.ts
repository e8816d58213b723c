/** How HTTP calls answer: what is wrong in one sentence, and no more often than is said. */
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { count } from '../../swarm/fields.ts';

/** A browser that opens it as a page shows it as one. */
export function problem(reply: FastifyReply, status: number, sentence: string): FastifyReply {
  reply.code(status);
  if (!reply.request.headers.accept?.includes('text/html')) return reply.send({ error: sentence });
  const text = escapedHtml(`${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`);
  return reply
    .type('text/html')
    .send(
      `<!doctype html><meta charset="utf-8"><title>Shoal</title><p>${text}</p><p><a href="/">To the start page</a></p>\n`,
    );
}

/** What Fastify refused, or what nobody caught: in the words of every other answer. */
export function failed(reply: FastifyReply, { statusCode = 500, message }: FastifyError): FastifyReply {
  return problem(reply, statusCode, statusCode < 500 ? message : 'the server failed over this call');
}

/**
 * The same in a hook before the call itself. It never resolves: Fastify (5.12) goes on to the call where the client left
 * before a hook's answer was on its way (reply.then in lib/reply.js).
 */
export function refuse(reply: FastifyReply, status: number, sentence: string): Promise<never> {
  problem(reply, status, sentence);
  return new Promise(() => {});
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
/** For a page's text, or for an attribute in double quotes. */
export const escapedHtml = (text: string): string => text.replace(/[&<>"]/g, (sign) => ENTITIES[sign] ?? '');

export const perMinute = (max: number) => ({ config: { rateLimit: { max, timeWindow: 60_000 } } });

/** The token or key that a call carries; empty: none. */
export const bearer = ({ headers }: FastifyRequest): string => (headers.authorization ?? '').replace(/^Bearer /, '');

/** A count in a path or a query, where everything is text. */
export const countText = z.coerce.number().pipe(count);
