/**
 * How often a donor's connection broke and came back: a network fails now and then, and each time others may wait for it.
 * One that does so all the time is a loss like any other.
 */
import { SILENCE } from '../../swarm/coordinator/deadlines.ts';

/** So many at once, and a further one after so long. */
const AT_ONCE = 3;
const EVERY_MS = 20_000;
/** What fails for a network fails for all of it within so long. */
const TOGETHER_MS = 2_000;
/** Those that broke first are forgotten. */
const NETWORKS_KEPT = 10_000;

class BreakAllowance {
  #left = AT_ONCE;
  #countedMs = 0;

  /** False: it happens too often. */
  may(nowMs: number): boolean {
    const earned = Math.min(AT_ONCE, this.#left + (nowMs - this.#countedMs) / EVERY_MS);
    this.#countedMs = nowMs;
    this.#left = earned < 1 ? earned : earned - 1;
    return earned >= 1;
  }
}

/**
 * The same of all donors of a network: those whose connections break together cost no more than one, but those who take turns
 * make the others wait all the time.
 */
export class NetworkBreaks {
  readonly #networks = new Map<string, { readonly allowance: BreakAllowance; togetherUntilMs: number }>();

  may(network: string, nowMs: number): boolean {
    const known = this.#networks.get(network) ?? { allowance: new BreakAllowance(), togetherUntilMs: nowMs };
    this.#networks.set(network, known);
    const [oldest] = this.#networks.keys();
    if (this.#networks.size > NETWORKS_KEPT && oldest !== undefined) this.#networks.delete(oldest);
    if (nowMs < known.togetherUntilMs) return true;
    known.togetherUntilMs = nowMs + TOGETHER_MS;
    return known.allowance.may(nowMs);
  }
}

export class Breaks {
  readonly #allowance = new BreakAllowance();
  #timer: NodeJS.Timeout | undefined;

  /** Nobody has seen it since its connection broke. */
  get isAway(): boolean {
    return this.#timer !== undefined;
  }

  /** False: it happens too often. */
  may(nowMs: number): boolean {
    return this.#allowance.may(nowMs);
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
