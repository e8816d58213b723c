/**
 * Which process of a site leads a run: a key of NATS that whoever makes it holds for some seconds, and renews. It only keeps
 * the site calm, since two may think that they hold it while one of them stands still; that only one can write is the
 * journal's affair (its fence).
 */
import { type KV, Kvm } from '@nats-io/kv';
import type { NatsConnection } from '@nats-io/transport-node';
import { z } from 'zod';
import { type RunWant, runWantSchema } from '../../swarm/messages/neededMost.ts';
import { isProcessName } from '../donors/processName.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** A key that was not renewed for so long is gone. */
const LEASE_MS = 4_000;
const RENEW_MS = 1_000;
const LOOK_MS = 500;
/** Where NATS was away, whoever led has the first try. */
const COURTESY_MS = 2_000;
/** Of the run that a site began with. */
export const FIRST_KEY = 'leader';

/** `isReady`: its run is open, and donors may come. */
const valueSchema = z.object({
  process: z.string().refine(isProcessName),
  isReady: z.boolean(),
  want: runWantSchema.nullable().catch(null),
});

export interface LeaseHost {
  /** This process leads from now on; it says `ready` when donors may come. */
  won(): void;
  /** It led, and leads no more. */
  lost(): void;
  /** After each look: who can be talked to, and what its run wants. */
  leads(process: string | null, want: RunWant | null): void;
  /** What the run wants, while this process leads it. */
  want(): RunWant | null;
  /** So long a free key is left to others, who lead fewer runs. */
  restraintMs(): number;
}

/** The site's keys, which are gone when they were not renewed. */
export const openLeases = (nats: NatsConnection, site: string, replicas: number): Promise<KV> =>
  new Kvm(nats).create(`shoal-${site}-lease`, { ttl: LEASE_MS, history: 1, replicas });

/** Whether some process has the key of the run that the site began with. */
export async function isSiteLed(leases: KV): Promise<boolean> {
  return (await leases.get(FIRST_KEY))?.operation === 'PUT';
}

export class Lease {
  readonly #kv: KV;
  readonly #key: string;
  readonly #process: string;
  readonly #host: LeaseHost;
  #timer: NodeJS.Timeout | undefined;
  #revision: number | null = null;
  #isReady = false;
  #renewedMs = 0;
  /** No try before. */
  #notBeforeMs = 0;
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;
  #isAnswered = false;
  /** Since when nobody has the key, as far as was seen; null: somebody has it. */
  #freeMs: number | null = null;

  /** `process`: this one's name in the site. */
  constructor(kv: KV, key: string, process: string, host: LeaseHost) {
    this.#kv = kv;
    this.#key = key;
    this.#process = process;
    this.#host = host;
  }

  /** Looks from now on. */
  begin(): void {
    this.#look();
  }

  get isHeld(): boolean {
    return this.#revision !== null;
  }

  /** NATS answered when it was asked last who leads. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** Others hear of it with the next renewal, which is at once. */
  async ready(): Promise<void> {
    this.#isReady = true;
    this.#renewedMs = -Infinity;
    await this.#lookNow();
  }

  /** Another may take it at once; this process does not, for as long as `pauseMs`. */
  async release(pauseMs = 0): Promise<void> {
    await this.#looking;
    this.#notBeforeMs = monotonicMs() + pauseMs;
    const revision = this.#revision;
    this.#revision = null;
    this.#isReady = false;
    if (revision !== null) await this.#kv.delete(this.#key, { previousSeq: revision }).catch(() => {}); // it runs out by itself
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#isClosed = true;
    await this.release();
  }

  #look(): void {
    if (this.#isClosed) return;
    void this.#lookNow().finally(() => {
      if (this.#isClosed) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#look(), LOOK_MS);
    });
  }

  #lookNow(): Promise<void> {
    this.#looking = this.#looking
      .then(() => this.#step())
      .then(() => {
        this.#isAnswered = true;
      })
      .catch(() => {
        this.#isAnswered = false;
        // NATS is away: whoever led goes on leading until another does.
        this.#notBeforeMs = monotonicMs() + COURTESY_MS;
      });
    return this.#looking;
  }

  async #step(): Promise<void> {
    if (this.#isClosed) return;
    if (this.#revision !== null && monotonicMs() - this.#renewedMs < RENEW_MS) return;
    if (this.#revision !== null && (await this.#renewed(this.#revision))) return;
    const entry = await this.#kv.get(this.#key);
    const held = entry !== null && entry.operation === 'PUT' ? valueSchema.safeParse(entry.json()) : null;
    if (held?.success && held.data.process !== this.#process) {
      this.#freeMs = null;
      this.#dropped();
      const { isReady, process, want } = held.data;
      this.#host.leads(isReady ? process : null, want);
      return;
    }
    if (entry !== null && held?.success) this.#tookBack(entry.revision);
    else await this.#take();
  }

  /** Its own word, whose answer was lost. */
  #tookBack(revision: number): void {
    if (this.#revision === null && monotonicMs() < this.#notBeforeMs) return; // released: it runs out
    const wasHeld = this.#revision !== null;
    this.#revision = revision;
    if (!wasHeld) this.#host.won();
  }

  async #renewed(revision: number): Promise<boolean> {
    try {
      this.#revision = await this.#kv.update(this.#key, this.#value(), revision);
      this.#renewedMs = monotonicMs();
      this.#host.leads(this.#isReady ? this.#process : null, this.#host.want());
      return true;
    } catch (error) {
      if (isConflict(error)) return false;
      throw error;
    }
  }

  async #take(): Promise<void> {
    const wasHeld = this.#revision !== null;
    if (!wasHeld) this.#host.leads(null, null);
    this.#freeMs ??= monotonicMs();
    const fromMs = Math.max(this.#notBeforeMs, this.#freeMs + this.#host.restraintMs());
    if (!wasHeld && monotonicMs() < fromMs) return;
    try {
      this.#revision = await this.#kv.create(this.#key, this.#value());
      this.#renewedMs = monotonicMs();
    } catch (error) {
      if (!isConflict(error)) throw error;
      return; // another was quicker: the next look says who
    }
    if (!wasHeld) this.#host.won();
  }

  #dropped(): void {
    if (this.#revision === null) return;
    this.#revision = null;
    this.#isReady = false;
    this.#host.lost();
  }

  #value = (): string => JSON.stringify({ process: this.#process, isReady: this.#isReady, want: this.#host.want() });
}

/** JetStream: the key has another revision than was said (error 10071). */
const isConflict = (error: unknown): boolean =>
  error instanceof Error && /wrong last sequence|key exists/i.test(error.message);
