/**
 * How long a request may take to arrive and a large answer to be read, and how many requests of one address may be on their
 * way: what comes or goes drop by drop holds a connection and its memory. Large bodies are the donors' shards, over lines as
 * slow as donors may say.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LEAST_BYTES_PER_MS } from '../../swarm/coordinator/deadlines.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { AddressLimit } from './addressLimit.ts';
import { refuse } from './calls.ts';
import { networkOf } from './networkOf.ts';

/** Of any body, whatever its length. */
const BODY_LIMIT_MS = 10_000;
/** Nothing came for so long. */
const PAUSE_LIMIT_MS = 20_000;
const LOOK_MS = 1_000;
/** Whoever has its answer and still sends has so long to read it. */
const ANSWERED_LIMIT_MS = 2_000;
/** Of a large answer so much is taken in so long as the slowest line carries. */
const READING_MS = 60_000;
/** Bodies of one address on their way at once: each donor of a class sends one or two. */
const BODIES_PER_ADDRESS = 256;

export function limitBodies(app: FastifyInstance): void {
  const limit = new AddressLimit(BODIES_PER_ADDRESS);
  app.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    const { raw } = request;
    if (isBodiless(raw)) return;
    const leave = limit.enter(networkOf(request.ip));
    if (leave === null) return refuse(reply, 429, 'too much is on its way from your address: try again later');
    whenOver(raw, leave);
    limitBodyTime(raw);
  });
  app.addHook('onResponse', async ({ raw }) => cutAnswered(raw));
}

/** Cuts the connection where the body is late. */
export function limitBodyTime(message: IncomingMessage): void {
  if (isBodiless(message)) return;
  const { headers, socket } = message;
  const limitMs = BODY_LIMIT_MS + Number(headers['content-length'] ?? 0) / LEAST_BYTES_PER_MS;
  const beganMs = monotonicMs();
  let seen = { bytes: socket.bytesRead, atMs: beganMs };
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    const bytes = socket.bytesRead;
    if (bytes > seen.bytes) seen = { bytes, atMs: nowMs };
    if (nowMs - beganMs > limitMs || nowMs - seen.atMs > PAUSE_LIMIT_MS) socket.destroy();
  }, LOOK_MS);
  whenOver(message, () => clearInterval(timer));
}

/** For when the answer is out: a body that nobody waits for any more holds its connection no longer. */
export function cutAnswered(message: IncomingMessage): void {
  if (message.complete || message.socket.destroyed) return;
  const timer = setTimeout(() => {
    if (!message.complete) message.socket.destroy();
  }, ANSWERED_LIMIT_MS);
  message.once('close', () => clearTimeout(timer));
}

interface Reader {
  readonly answers: Map<ServerResponse, number>;
  /** Of answers that ended since the last look. */
  ended: number;
}
/** By whose answers they are. */
type Readers = Map<unknown, Reader>;

/**
 * Who reads large answers drop by drop has none of the few places for ever. `by`: whose answers are read over one line, all of
 * them together as fast as the slowest has to be.
 */
export function limitReading(answer: ServerResponse, by: unknown = answer, readers: Readers = new Map()): void {
  const { socket } = answer;
  if (socket === null) return;
  const reader = readers.get(by) ?? beginReading(by, readers);
  const before = taken(answer);
  reader.answers.set(answer, before);
  const isOver = (): void => {
    reader.ended += socket.bytesWritten - (reader.answers.get(answer) ?? before);
    reader.answers.delete(answer);
  };
  answer.once('close', isOver);
}

/** What its connection has carried of all its answers. */
const taken = ({ socket }: ServerResponse): number => (socket ? socket.bytesWritten - socket.writableLength : 0);

/** Some of it waits to be taken; what is made for long is nobody's delay. */
const isUnread = ({ socket, writableLength }: ServerResponse): boolean =>
  writableLength > 0 || (socket?.writableLength ?? 0) > 0;

function beginReading(by: unknown, readers: Readers): Reader {
  const reader: Reader = { answers: new Map(), ended: 0 };
  readers.set(by, reader);
  let known = new Set<ServerResponse>();
  const timer = setInterval(() => {
    const moved = [...reader.answers].reduce((sum, [answer, before]) => sum + taken(answer) - before, reader.ended);
    if (moved < READING_MS * LEAST_BYTES_PER_MS) for (const answer of known) if (isUnread(answer)) answer.destroy();
    reader.ended = 0;
    for (const answer of reader.answers.keys()) reader.answers.set(answer, taken(answer));
    known = new Set(reader.answers.keys());
    if (known.size > 0) return;
    clearInterval(timer);
    readers.delete(by);
  }, READING_MS);
  return reader;
}

/** Requests of one connection that have no answer yet: browsers and proxies have one. */
const MOST_UNANSWERED = 16;

/**
 * Answers on one connection are made one after the other, as HTTP has them: else a connection that asks for hundreds of files
 * and reads none has all of them in memory. It ends where more requests than that wait. Those of one address share its line.
 */
export function limitAnswers(app: FastifyInstance): void {
  const readers: Readers = new Map();
  const connections = new WeakMap<Socket, { unanswered: number; last: Promise<void> }>();
  app.addHook('onRequest', async ({ raw: { socket }, ip }, reply) => {
    const { raw } = reply;
    const connection = connections.get(socket) ?? { unanswered: 0, last: Promise.resolve() };
    connections.set(socket, connection);
    if (connection.unanswered === MOST_UNANSWERED) socket.destroy();
    if (socket.destroyed) return reply.hijack();
    connection.unanswered += 1;
    const before = connection.last;
    connection.last = new Promise((resolve) => {
      raw.once('close', () => {
        connection.unanswered -= 1;
        resolve();
      });
    });
    await before;
    if (socket.destroyed) return reply.hijack();
    limitReading(raw, networkOf(ip), readers);
  });
}

const isBodiless = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;

/** All of it is here, or no more of it comes. */
function whenOver(message: IncomingMessage, act: () => void): void {
  const end = (): void => {
    message.off('end', end).off('close', end);
    act();
  };
  message.once('end', end).once('close', end);
}
