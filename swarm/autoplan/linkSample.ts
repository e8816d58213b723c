/**
 * Which links are measured that no step uses. Its one idea: a plan can only be better than the one in force by links that
 * it does not have, so now and then a pair of donors that do not talk to each other is asked to, a quarter of a megabyte
 * in all; each donor once a minute at most, until it knows some links beside its own. Those of the plan come first: it
 * is them that a newcomer would talk to.
 */
import type { PeerId, Random } from '../base.ts';
import type { Limits } from '../limits.ts';
import { PROBE_BYTES } from '../messages/frame.ts';

/** Between two probes of the swarm, and of one donor. */
const EVERY_MS = 1_000;
export const REST_MS = 60_000;
/** What was measured, or tried, so long ago is looked at anew. */
export const FRESH_MS = 600_000;
/** Links of a donor that are fresh: then it need not measure others. */
export const SAMPLE = 8;
/** Donors that are looked at for a partner, at a time. */
const MOST_LOOKED_AT = 32;

type Caps = Pick<Limits, 'uploadBytesPerSecond' | 'downloadBytesPerSecond'>;

/** Half of a cap is for the run, and a probe is done within a second. What a donor receives is about what it sends. */
export const hasRoom = ({ uploadBytesPerSecond, downloadBytesPerSecond }: Caps, sentBytesPerSecond: number): boolean =>
  [uploadBytesPerSecond, downloadBytesPerSecond].every(
    (cap) => cap === null || (sentBytesPerSecond <= cap / 2 && cap - sentBytesPerSecond >= PROBE_BYTES),
  );

export class LinkSample {
  readonly #random: Random;
  /** When a pair was measured or tried, at both of its ends. */
  readonly #known = new Map<PeerId, Map<PeerId, number>>();
  /** The last probe of each donor: when, and with whom. */
  readonly #probed = new Map<PeerId, { readonly atMs: number; readonly other: PeerId }>();
  #nextMs = Number.NEGATIVE_INFINITY;

  constructor(random: Random) {
    this.#random = random;
  }

  isDue(nowMs: number): boolean {
    return nowMs >= this.#nextMs;
  }

  /** By what the run sends, or by a probe. */
  measured(one: PeerId, other: PeerId, nowMs: number): void {
    this.#linksOf(one).set(other, nowMs);
    this.#linksOf(other).set(one, nowMs);
  }

  /** Whether this donor was asked to measure its link to that one. */
  isAsked(peer: PeerId, other: PeerId): boolean {
    return this.#probed.get(peer)?.other === other;
  }

  gone(peer: PeerId): void {
    this.#known.delete(peer);
    this.#probed.delete(peer);
    for (const links of this.#known.values()) links.delete(peer);
  }

  /** Two who measure the link between them now; null: nobody has to. `able`: who may be asked. */
  next(able: readonly PeerId[], members: ReadonlySet<PeerId>, nowMs: number): readonly [PeerId, PeerId] | null {
    if (!this.isDue(nowMs)) return null;
    this.#nextMs = nowMs + EVERY_MS;
    const lastMs = (peer: PeerId): number => this.#probed.get(peer)?.atMs ?? Number.NEGATIVE_INFINITY;
    const rested = able.filter((peer) => nowMs - lastMs(peer) >= REST_MS).sort((a, b) => byTime(lastMs(a), lastMs(b)));
    for (const one of rested.slice(0, MOST_LOOKED_AT)) {
      const known = this.#fresh(one, nowMs);
      if (known.size >= SAMPLE) continue;
      const strangers = rested.filter((other) => other !== one && !known.has(other));
      const inPlan = strangers.filter((other) => members.has(other));
      const from = inPlan.length > 0 ? inPlan : strangers;
      const other = from[Math.floor(this.#random() * from.length)];
      if (other === undefined) continue;
      this.#probed.set(one, { atMs: nowMs, other });
      this.#probed.set(other, { atMs: nowMs, other: one });
      this.measured(one, other, nowMs); // also where no link opens: the next ones are others
      return [one, other];
    }
    return null;
  }

  #linksOf(peer: PeerId): Map<PeerId, number> {
    const links = this.#known.get(peer) ?? new Map<PeerId, number>();
    this.#known.set(peer, links);
    return links;
  }

  #fresh(peer: PeerId, nowMs: number): ReadonlyMap<PeerId, number> {
    const links = this.#linksOf(peer);
    for (const [other, atMs] of links) if (nowMs - atMs >= FRESH_MS) links.delete(other);
    return links;
  }
}

/** Two who never were: neither comes before the other. */
const byTime = (a: number, b: number): number => (a === b ? 0 : a - b);
