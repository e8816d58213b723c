/**
 * Places for connections that are not admitted yet: few, so that a crowd that only says hello leaves room for who
 * measures. Where they run out, the address with most of them gives way, its oldest first.
 */
import type { DonorLink } from './donorSocket.ts';

/** Two hundred donors may come at once and measure for some seconds. */
const PLACES = 256;
/** A class behind one router fits twice. */
const PLACES_OF_ADDRESS = 64;
/** Of those whose hello may say that they are waited for: as many as a server has donors. */
const UNNAMED = 1_000;
/** Where every address has as many, one that is younger is left to measure. */
const UNDISTURBED_MS = 10_000;

type Pending = Pick<DonorLink, 'address' | 'refuse'>;

export class PendingPlaces {
  /** Since when each is here, the oldest first. */
  readonly #since = new Map<Pending, number>();
  readonly #unnamed = new Set<Pending>();

  /** Donors are waited for: it takes no place before its hello says whether it is one of them. False: too many stand there. */
  comesUnnamed(pending: Pending): boolean {
    if (this.#unnamed.size < UNNAMED) this.#unnamed.add(pending);
    return this.#unnamed.has(pending);
  }

  /** It has said its hello: whether it has no place for that reason. */
  isNamed(pending: Pending): boolean {
    return this.#unnamed.delete(pending);
  }

  /** Whether there is a place for it; someone else may have to go for that. */
  enter(pending: Pending, nowMs: number): boolean {
    const crowded = this.#crowdedFor(pending);
    if (crowded !== null) {
      const oldest = this.#of(crowded)[0];
      const isFairer = this.#of(crowded).length > this.#of(pending.address).length + 1;
      const mayGo = isFairer || crowded === pending.address || nowMs - (oldest?.sinceMs ?? nowMs) >= UNDISTURBED_MS;
      if (oldest === undefined || !mayGo) return false;
      this.leave(oldest.pending);
      oldest.pending.refuse('serverFull', 'others wait to be admitted');
    }
    this.#since.set(pending, nowMs);
    return true;
  }

  /** It is admitted, or gone. */
  leave(pending: Pending): void {
    this.#since.delete(pending);
    this.#unnamed.delete(pending);
  }

  get count(): number {
    return this.#since.size;
  }

  /** The address that has to give way; null: there is room. Of those with equally many the one whose oldest has been here longest. */
  #crowdedFor({ address }: Pending): string | null {
    if (this.#of(address).length >= PLACES_OF_ADDRESS) return address;
    if (this.count < PLACES) return null;
    const counts = new Map<string, number>();
    for (const other of this.#since.keys()) counts.set(other.address, (counts.get(other.address) ?? 0) + 1);
    const most = Math.max(...counts.values());
    return [...counts].find(([, count]) => count === most)?.[0] ?? null;
  }

  #of(address: string): { readonly pending: Pending; readonly sinceMs: number }[] {
    return [...this.#since].flatMap(([pending, sinceMs]) => (pending.address === address ? { pending, sinceMs } : []));
  }
}
