/**
 * How often a donor's connection broke and came back: a network fails now and then, and each time others may wait for it.
 * One that does so all the time is a loss like any other.
 */
import { SILENCE } from '../../swarm/coordinator/deadlines.ts';

/** So many at once, and a further one after so long. */
const AT_ONCE = 3;
const EVERY_MS = 20_000;

export class Breaks {
  #allowance = AT_ONCE;
  #countedMs = 0;
  #timer: NodeJS.Timeout | undefined;

  /** Nobody has seen it since its connection broke. */
  get isAway(): boolean {
    return this.#timer !== undefined;
  }

  /** False: it happens too often. */
  may(nowMs: number): boolean {
    const earned = Math.min(AT_ONCE, this.#allowance + (nowMs - this.#countedMs) / EVERY_MS);
    this.#countedMs = nowMs;
    this.#allowance = Math.max(0, earned - 1);
    return earned >= 1;
  }

  /** It is waited for as long as for one who is silent. */
  wait(over: () => void): void {
    this.#timer = setTimeout(over, SILENCE.donorMs);
  }

  /** It is back, or never will be. */
  over(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
