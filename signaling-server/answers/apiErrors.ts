/** Refusals of `/v1/…` in the form that OpenAI's clients read: a status, a sentence, and words for programs. */
import type { FastifyReply } from 'fastify';

/** A client that is told to wait longer would do so deaf to whoever wants to stop it (Node 20's of OpenAI). */
const LONGEST_WAIT_SECONDS = 5;

export interface ApiError {
  readonly status: number;
  readonly message: string;
  readonly type: 'invalid_request_error' | 'requests' | 'tokens' | 'server_error';
  /** The field that it is about. */
  readonly param: string | null;
  readonly code: string | null;
  readonly retrySeconds?: number;
}

export const invalid = (param: string | null, message: string, code: string | null = null, status = 400): ApiError => ({
  ...{ status, message, type: 'invalid_request_error', param, code },
});

export const tooMany = (type: 'requests' | 'tokens', message: string, retrySeconds: number): ApiError => ({
  ...{ status: 429, message, type, param: null, code: 'rate_limit_exceeded', retrySeconds },
});

export const serverError = (status: number, message: string): ApiError => ({
  ...{ status, message, type: 'server_error', param: null, code: null },
});

export const errorBody = ({ message, type, param, code }: ApiError) => ({ error: { message, type, param, code } });

export function sendError(reply: FastifyReply, error: ApiError): FastifyReply {
  const { status, retrySeconds } = error;
  if (retrySeconds !== undefined) reply.header('retry-after', retrySeconds);
  if ((retrySeconds ?? 0) > LONGEST_WAIT_SECONDS) reply.header('x-should-retry', 'false');
  return reply.code(status).send(errorBody(error));
}
