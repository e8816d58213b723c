/**
 * When a newcomer is taken in. Its one idea: a donor that vanishes costs everyone the steps since the newest checkpoint,
 * so an address whose donors have done that again and again waits, each time for twice as long. Many who vanish at once
 * cost no more than one, and count once; time forgives.
 */
import { doubledMs, type PeerId } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** Losses of an address that cost it nothing. */
const FREE_LOSSES = 5;
/** So near to each other they are one: a class that ends, a network that fails. */
const AT_ONCE_MS = 10_000;
const FIRST_WAIT_MS = 30_000;
const LONGEST_WAIT_MS = 1_800_000;
/** So long without a loss forgives one. */
const FORGIVEN_MS = 600_000;
/** Addresses that are remembered: the newest. */
const ADDRESSES_KEPT = 10_000;

interface Losses {
  readonly count: number;
  readonly lastMs: number;
}

export class Arrivals {
  readonly #losses = new Map<string, Losses>();
  readonly #waiting = new Map<PeerId, NodeJS.Timeout>();

  /** Calls `join` now and says so, or later, unless the donor is gone by then. */
  asked(peer: PeerId, address: string, join: () => void): 'now' | 'later' {
    const waitMs = this.waitMs(address, monotonicMs());
    if (waitMs > 0) {
      const timer = setTimeout(() => {
        this.#waiting.delete(peer);
        join();
      }, waitMs);
      this.#waiting.set(peer, timer);
      return 'later';
    }
    join();
    return 'now';
  }

  isWaiting(peer: PeerId): boolean {
    return this.#waiting.has(peer);
  }

  gone(peer: PeerId): void {
    clearTimeout(this.#waiting.get(peer));
    this.#waiting.delete(peer);
  }

  /** A donor of this address was needed, and is gone without a word. */
  lost(address: string, nowMs: number): void {
    if (isThisMachine(address)) return;
    const before = this.#losses.get(address);
    if (before && nowMs - before.lastMs < AT_ONCE_MS) return;
    this.#losses.delete(address);
    this.#losses.set(address, { count: this.#held(before, nowMs) + 1, lastMs: nowMs });
    const [oldest] = this.#losses.keys();
    if (this.#losses.size > ADDRESSES_KEPT && oldest !== undefined) this.#losses.delete(oldest);
  }

  waitMs(address: string, nowMs: number): number {
    const losses = this.#losses.get(address);
    const over = this.#held(losses, nowMs) - FREE_LOSSES;
    if (losses === undefined || over <= 0) return 0;
    const waitMs = doubledMs(FIRST_WAIT_MS, LONGEST_WAIT_MS, over - 1);
    return Math.max(0, losses.lastMs + waitMs - nowMs);
  }

  close(): void {
    for (const peer of [...this.#waiting.keys()]) this.gone(peer);
  }

  /** What is not forgiven yet. */
  #held(losses: Losses | undefined, nowMs: number): number {
    return losses === undefined ? 0 : Math.max(0, losses.count - Math.floor((nowMs - losses.lastMs) / FORGIVEN_MS));
  }
}

/** Where the server is tried out, or a proxy hides everyone's address. */
const isThisMachine = (address: string): boolean => address === '::1' || /^(::ffff:)?127\./.test(address);
