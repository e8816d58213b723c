/**
 * Tokens that somebody may ask for within any hour: what an answer may come to is taken before it begins, and what it did
 * not come to is given back. Minutes count whole. Kept in memory: a server that starts begins to count.
 */
import { monotonicMs } from '../monitoring/clock.ts';

const MINUTE_MS = 60_000;
const MINUTES = 60;
/** Who are remembered: those who asked last. */
const MOST_REMEMBERED = 5_000;

interface Taken {
  /** How much it came to; a second call does nothing. */
  settle(tokens: number): void;
}

type Spent = Map<number, number>;

export class HourlyTokens {
  /** Of each who asked, by the minute. */
  readonly #spent = new Map<string, Spent>();

  /** A number: so many seconds from now there will be enough again, if ever. */
  take(who: string, tokens: number, limit: number): Taken | number {
    const minute = Math.floor(monotonicMs() / MINUTE_MS);
    const spent = this.#spentOf(who, minute);
    const sum = [...spent.values()].reduce((total, each) => total + each, 0);
    if (sum + tokens > limit) return secondsUntil(spent, sum + tokens - limit);
    spent.set(minute, (spent.get(minute) ?? 0) + tokens);
    let left = tokens;
    return {
      settle: (used) => {
        spent.set(minute, (spent.get(minute) ?? 0) - left + Math.min(left, used));
        left = Math.min(left, used);
      },
    };
  }

  /** Without what is an hour old. */
  #spentOf(who: string, minute: number): Spent {
    const spent = this.#spent.get(who) ?? new Map<number, number>();
    for (const each of spent.keys()) if (each <= minute - MINUTES) spent.delete(each);
    this.#spent.delete(who);
    this.#spent.set(who, spent);
    const [oldest] = this.#spent.keys();
    if (this.#spent.size > MOST_REMEMBERED && oldest !== undefined) this.#spent.delete(oldest);
    return spent;
  }
}

function secondsUntil(spent: Spent, missing: number): number {
  let [freed, last] = [0, Math.floor(monotonicMs() / MINUTE_MS)];
  for (const [minute, tokens] of [...spent].sort(([a], [b]) => a - b)) {
    if (freed >= missing) break;
    freed += tokens;
    last = minute;
  }
  return Math.max(1, Math.ceil(((last + MINUTES) * MINUTE_MS - monotonicMs()) / 1_000));
}
