/**
 * Waiting for a NATS that is not ready: a cluster that has just begun has no leader for some seconds and answers late, some
 * of its servers may come up later than those who need it, and whoever asks meanwhile is refused.
 */
import { JetStreamApiError } from '@nats-io/jetstream';
import { ConnectionError, RequestError, TimeoutError } from '@nats-io/transport-node';
import { messageOf } from '../files/errorWords.ts';
import { monotonicMs, pause } from '../monitoring/clock.ts';
import type { Log } from '../monitoring/log.ts';
import { RETRY_MS } from './writer.ts';

/** What JetStream says while too few of its servers are there, or they have not agreed on a leader (server/errors.json). */
const NOT_READY_CODES = new Set<number>([
  10_004, // an answer for a cluster that is not whole
  10_005, // no suitable peers for placement
  10_006, // not in clustered mode yet
  10_007, // not assigned
  10_008, // temporarily unavailable
  10_009, // not the leader
  10_023, // too few servers for the replicas
  10_118, // the stream is offline
  10_119, // the consumer is offline
]);

/** Whether the same request may succeed in some seconds, with nothing changed by a person. */
export function isNotReady(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return NOT_READY_CODES.has(error.code);
  return error instanceof TimeoutError || error instanceof ConnectionError || error instanceof RequestError;
}

/** Up to one moment, however many things are asked for meanwhile. */
export class Patience {
  readonly #untilMs: number;
  readonly #log: Log;
  readonly #signal: AbortSignal | undefined;
  #hasSaid = false;

  /** `limitMs` 0: none; `signal`: nobody waits any more. */
  constructor(limitMs: number, log: Log, signal?: AbortSignal) {
    this.#untilMs = monotonicMs() + limitMs;
    this.#log = log;
    this.#signal = signal;
  }

  /** What `work` answers, tried again while NATS is not ready; rejects as the last try did. */
  async has<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        const leftMs = this.#untilMs - monotonicMs();
        if (leftMs <= 0 || this.#signal?.aborted || !isNotReady(error)) throw error;
        this.#say(leftMs, error);
        await pause(RETRY_MS);
      }
    }
  }

  #say(leftMs: number, error: unknown): void {
    if (this.#hasSaid) return;
    this.#hasSaid = true;
    const reason = messageOf(error).toLowerCase();
    this.#log('warn', `NATS is not ready (${reason}): trying for ${Math.ceil(leftMs / 1_000)} s`);
  }
}

/** Whether it was done in time; it goes on all the same, and how it fails is nobody's affair. */
export async function endsWithin(work: Promise<unknown>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), limitMs);
  });
  const done = work.then(
    () => true,
    () => false,
  );
  return await Promise.race([done, late]).finally(() => clearTimeout(timer));
}
