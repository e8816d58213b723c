/**
 * How long a new donor waits before it joins. A donor that vanishes costs everyone the steps since the newest checkpoint,
 * so an address that has lost many donors waits, twice as long after each further loss. Donors that vanish together cost
 * no more than one and count as one loss; losses expire with time.
 */
import { doubledMs, type PeerId } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** An address may lose so many donors before its new ones have to wait. */
const LOSSES_ALLOWED = 5;
/** Losses within so short a time count as one: a class that ends, a network that fails. */
const AT_ONCE_MS = 10_000;
const FIRST_WAIT_MS = 30_000;
const LONGEST_WAIT_MS = 1_800_000;
/** One loss expires after so long without another. */
const EXPIRY_MS = 600_000;
/** Of so many addresses the losses are kept: those with the newest ones. */
const ADDRESSES_KEPT = 10_000;

interface Losses {
  readonly count: number;
  readonly lastMs: number;
}

export class JoinDelays {
  readonly #losses = new Map<string, Losses>();
  readonly #waiting = new Map<PeerId, NodeJS.Timeout>();

  /** Calls `join` at once, or after the delay unless the donor has left by then; answers which. */
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

  /** A donor of this address vanished without notice while the plan needed it. */
  lost(address: string, nowMs: number): void {
    if (isThisMachine(address)) return;
    const before = this.#losses.get(address);
    if (before && nowMs - before.lastMs < AT_ONCE_MS) return;
    this.#losses.delete(address);
    this.#losses.set(address, { count: this.#unexpired(before, nowMs) + 1, lastMs: nowMs });
    const [oldest] = this.#losses.keys();
    if (this.#losses.size > ADDRESSES_KEPT && oldest !== undefined) this.#losses.delete(oldest);
  }

  waitMs(address: string, nowMs: number): number {
    const losses = this.#losses.get(address);
    const over = this.#unexpired(losses, nowMs) - LOSSES_ALLOWED;
    if (losses === undefined || over <= 0) return 0;
    const waitMs = doubledMs(FIRST_WAIT_MS, LONGEST_WAIT_MS, over - 1);
    return Math.max(0, losses.lastMs + waitMs - nowMs);
  }

  close(): void {
    for (const peer of [...this.#waiting.keys()]) this.gone(peer);
  }

  /** Losses that have not expired. */
  #unexpired(losses: Losses | undefined, nowMs: number): number {
    return losses === undefined ? 0 : Math.max(0, losses.count - Math.floor((nowMs - losses.lastMs) / EXPIRY_MS));
  }
}

/** These never wait: someone tries the server out, or a proxy hides everyone's address. */
const isThisMachine = (address: string): boolean => address === '::1' || /^(::ffff:)?127\./.test(address);
