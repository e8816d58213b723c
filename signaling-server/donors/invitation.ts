/**
 * Who may come into a run by invitation. An invitation is a word that a person chose: an address that says wrong ones has
 * to wait, and is not told meanwhile whether one is right.
 */
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import { isSameSecret } from '../http/secret.ts';
import { monotonicMs } from '../monitoring/clock.ts';

/** A class that was given a wrong link tries it once each. */
const WRONG_PER_MINUTE = 40;
const WINDOW_MS = 60_000;
/** Addresses that are remembered: those whose time began last. */
const ADDRESSES_KEPT = 5_000;

interface Wrong {
  readonly sinceMs: number;
  readonly count: number;
}

export class Invitation {
  readonly #invite: string | null;
  readonly #wrong = new Map<string, Wrong>();

  constructor(invite: string | null) {
    this.#invite = invite;
  }

  /** What is said of it in links; null: there is none. */
  get token(): string | null {
    return this.#invite;
  }

  /** Everybody may come in. */
  get isOpen(): boolean {
    return this.#invite === null;
  }

  /** Why whoever says this may not come in; null: it may. */
  problem(said: string | undefined, address: string): RefusalReason | null {
    if (this.#invite === null) return null;
    const { sinceMs, count } = this.#current(address);
    if (count >= WRONG_PER_MINUTE) return 'wrongInvitations';
    if (said === undefined) return 'notInvited'; // it guesses nothing
    if (isSameSecret(said, this.#invite)) return null;
    this.#wrong.set(address, { sinceMs, count: count + 1 });
    const [oldest] = this.#wrong.keys();
    if (this.#wrong.size > ADDRESSES_KEPT && oldest !== undefined) this.#wrong.delete(oldest);
    return 'notInvited';
  }

  #current(address: string): Wrong {
    const nowMs = monotonicMs();
    const known = this.#wrong.get(address);
    if (known !== undefined && nowMs - known.sinceMs < WINDOW_MS) return known;
    this.#wrong.delete(address);
    return { sinceMs: nowMs, count: 0 };
  }
}
