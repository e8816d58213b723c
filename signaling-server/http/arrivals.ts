/**
 * How many new sockets are let in: as many as the server bears beside its work. Past that only addresses come in that have
 * hardly come before, so that who comes back all the time shuts nobody out.
 */
import { monotonicMs } from '../monitoring/clock.ts';

const AT_ONCE = 100;
const PER_SECOND = 40;
/** An address that came no more often within a minute is new here. */
const VISITS_OF_NEW = 3;
const WINDOW_MS = 60_000;
/** Addresses that are remembered: those whose time began last. */
const ADDRESSES_KEPT = 10_000;

/** Fills with time, up to what it holds. */
class Bucket {
  #level = AT_ONCE;
  #atMs = monotonicMs();

  take(): boolean {
    const nowMs = monotonicMs();
    this.#level = Math.min(AT_ONCE, this.#level + ((nowMs - this.#atMs) / 1_000) * PER_SECOND);
    this.#atMs = nowMs;
    if (this.#level < 1) return false;
    this.#level -= 1;
    return true;
  }
}

interface Visits {
  readonly sinceMs: number;
  readonly count: number;
}

export class Arrivals {
  readonly #forAll = new Bucket();
  readonly #forNew = new Bucket();
  readonly #visits = new Map<string, Visits>();

  /** Whether one more of this address may come in now. */
  may(address: string): boolean {
    const nowMs = monotonicMs();
    const known = this.#visits.get(address);
    const isOver = known === undefined || nowMs - known.sinceMs >= WINDOW_MS;
    if (isOver) this.#visits.delete(address);
    const { sinceMs, count } = isOver ? { sinceMs: nowMs, count: 0 } : known;
    this.#visits.set(address, { sinceMs, count: count + 1 });
    const [oldest] = this.#visits.keys();
    if (this.#visits.size > ADDRESSES_KEPT && oldest !== undefined) this.#visits.delete(oldest);
    return this.#forAll.take() || (count < VISITS_OF_NEW && this.#forNew.take());
  }
}
