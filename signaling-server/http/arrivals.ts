/**
 * How many of all addresses together are let in: as many as the server bears beside its work. Past that only addresses come
 * in that have hardly come before, so that who comes back all the time shuts nobody out.
 */
import { monotonicMs } from '../monitoring/clock.ts';

/** An address that came no more often within a minute is new here. */
const VISITS_OF_NEW = 3;
const WINDOW_MS = 60_000;
/** Addresses that are remembered: those whose time began last. */
const ADDRESSES_KEPT = 10_000;

interface Rate {
  readonly atOnce: number;
  readonly perSecond: number;
}

/** Fills with time, up to what it holds. */
class Bucket {
  readonly #rate: Rate;
  #level: number;
  #atMs = monotonicMs();

  constructor(rate: Rate) {
    this.#rate = rate;
    this.#level = rate.atOnce;
  }

  take(): boolean {
    const nowMs = monotonicMs();
    const { atOnce, perSecond } = this.#rate;
    this.#level = Math.min(atOnce, this.#level + ((nowMs - this.#atMs) / 1_000) * perSecond);
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
  readonly #forAll: Bucket;
  readonly #forNew: Bucket;
  readonly #visits = new Map<string, Visits>();

  constructor(rate: Rate) {
    this.#forAll = new Bucket(rate);
    this.#forNew = new Bucket(rate);
  }

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
