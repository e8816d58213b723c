/**
 * How long a new donor waits before it joins. One that vanishes, or that has to be thrown out, costs everyone steps or a
 * change of plan: an address whose donors did that waits, twice as long after each further time. Those of one address
 * who go together count once; an address with many donors that stay may lose some; time forgives.
 */
import { doubledMs, type PeerId } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { KeptLosses, type Losses } from './keptLosses.ts';

/** An address may cost the others so much before its new donors have to wait, and as often again as it has donors that stay. */
const LOSSES_ALLOWED = 1;
/** A donor stays that has been in for so long. */
const STAYING_MS = 60_000;
/** Who came before a loss and goes so soon after it is part of it: a class that ends, a network that fails. */
const AT_ONCE_MS = 10_000;
const FIRST_WAIT_MS = 30_000;
const LONGEST_WAIT_MS = 1_800_000;
/** One loss expires after so long without another. */
const EXPIRY_MS = 600_000;
/** Who was shown to harm the run costs it a roll-back: it waits so long, each further time so many times longer, a day at most. */
const FIRST_CONVICTION_MS = 300_000;
const CONVICTION_GROWTH = 12;
const DAY_MS = 86_400_000;
interface Visit {
  readonly address: string;
  /** Since when it is in; null: it waits. */
  joinedMs: number | null;
  timer: NodeJS.Timeout | undefined;
}

export class JoinDelays {
  readonly #kept: KeptLosses;
  readonly #visits = new Map<PeerId, Visit>();

  /** `kept`: what a site knows of addresses, where this is a server of one. */
  constructor(kept: KeptLosses = new KeptLosses()) {
    this.#kept = kept;
  }

  /** Calls `join` at once, or after the delay unless the donor has left by then; answers which. */
  asked(peer: PeerId, address: string, join: () => void): 'now' | 'later' {
    const nowMs = monotonicMs();
    const waitMs = this.waitMs(address, nowMs);
    const visit: Visit = { address, joinedMs: waitMs > 0 ? null : nowMs, timer: undefined };
    this.#visits.set(peer, visit);
    if (waitMs === 0) {
      join();
      return 'now';
    }
    visit.timer = setTimeout(() => {
      visit.joinedMs = monotonicMs();
      join();
    }, waitMs);
    return 'later';
  }

  isWaiting(peer: PeerId): boolean {
    return this.#visits.get(peer)?.joinedMs === null;
  }

  /** For how long it has been in. */
  inForMs(peer: PeerId, nowMs: number): number {
    const joinedMs = this.#visits.get(peer)?.joinedMs ?? nowMs;
    return nowMs - joinedMs;
  }

  gone(peer: PeerId): void {
    clearTimeout(this.#visits.get(peer)?.timer);
    this.#visits.delete(peer);
  }

  /** Someone of this address, who came at `sinceMs`, has cost the others something by the way it went. */
  lost(address: string, sinceMs: number, nowMs: number): void {
    const before = this.#kept.of('losses', address);
    if (before && sinceMs < before.lastMs && nowMs - before.lastMs < AT_ONCE_MS) return;
    this.#kept.keep('losses', address, { count: unexpired(before, nowMs, EXPIRY_MS) + 1, lastMs: nowMs });
  }

  /** Someone of this address was shown to harm the run. */
  convicted(address: string, nowMs: number): void {
    const count = unexpired(this.#kept.of('convictions', address), nowMs, DAY_MS) + 1;
    this.#kept.keep('convictions', address, { count, lastMs: nowMs });
  }

  waitMs(address: string, nowMs: number): number {
    const losses = this.#kept.of('losses', address);
    const convictions = this.#kept.of('convictions', address);
    if (losses === undefined && convictions === undefined) return 0;
    const staying = this.#staying(address, nowMs);
    const over = unexpired(losses, nowMs, EXPIRY_MS) - LOSSES_ALLOWED - staying;
    const times = unexpired(convictions, nowMs, DAY_MS) - staying;
    const waits = [
      over > 0 && losses ? losses.lastMs + doubledMs(FIRST_WAIT_MS, LONGEST_WAIT_MS, over - 1) : 0,
      times > 0 && convictions
        ? convictions.lastMs + Math.min(DAY_MS, FIRST_CONVICTION_MS * CONVICTION_GROWTH ** (times - 1))
        : 0,
    ];
    return Math.max(0, ...waits.map((untilMs) => untilMs - nowMs));
  }

  close(): void {
    for (const peer of [...this.#visits.keys()]) this.gone(peer);
  }

  #staying(address: string, nowMs: number): number {
    const stays = (visit: Visit): boolean =>
      visit.address === address && visit.joinedMs !== null && nowMs - visit.joinedMs >= STAYING_MS;
    return [...this.#visits.values()].filter(stays).length;
  }
}

/** One is forgiven after each such time. */
const unexpired = (losses: Losses | undefined, nowMs: number, expiryMs: number): number =>
  losses === undefined ? 0 : Math.max(0, losses.count - Math.floor((nowMs - losses.lastMs) / expiryMs));
