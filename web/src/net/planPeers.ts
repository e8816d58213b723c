/**
 * Whom the plans have this tab reach: who may, who must now, who will have to by a plan that may come, who only through the
 * server, and by how many connections. Owns nothing.
 */
import type { PeerId } from '../../../swarm/base.ts';

/** So long a link stays that no plan allows any more: the other end may hear of it later. */
export const PARTING_MS = 10_000;

export class PlanPeers {
  #allowed: ReadonlySet<PeerId> = new Set();
  #partAtMs = 0;
  /** Who sent what nobody asked for, until the next plan. */
  readonly #barred = new Set<PeerId>();
  #wanted: ReadonlySet<PeerId> = new Set();
  #wantedNext: ReadonlySet<PeerId> = new Set();
  /** To these everything goes through the server, because it says so: no link is kept or opened, and none of theirs taken. */
  #told: ReadonlySet<PeerId> = new Set();
  #streams: ReadonlyMap<PeerId, number> = new Map();

  get wanted(): ReadonlySet<PeerId> {
    return this.#wanted;
  }

  get wantedNext(): ReadonlySet<PeerId> {
    return this.#wantedNext;
  }

  get told(): ReadonlySet<PeerId> {
    return this.#told;
  }

  allow(peers: ReadonlySet<PeerId>, nowMs: number): void {
    this.#allowed = peers;
    this.#partAtMs = nowMs + PARTING_MS;
    this.#wanted = new Set([...this.#wanted].filter((peer) => peers.has(peer)));
    this.#wantedNext = new Set([...this.#wantedNext].filter((peer) => peers.has(peer)));
  }

  allAllowed(peers: readonly PeerId[]): boolean {
    return peers.every((peer) => this.#allowed.has(peer));
  }

  bar(peer: PeerId): void {
    this.#barred.add(peer);
  }

  want(peers: readonly PeerId[], told: readonly PeerId[], streams: ReadonlyMap<PeerId, number>): void {
    this.#barred.clear();
    this.#wanted = new Set(peers);
    this.#told = new Set(told);
    this.#streams = streams;
    if ([...this.#wantedNext].every((peer) => this.#wanted.has(peer))) this.#wantedNext = new Set();
  }

  wantNext(peers: readonly PeerId[]): void {
    this.#wantedNext = new Set(peers);
  }

  isWanted(peer: PeerId): boolean {
    return this.#wanted.has(peer) || this.#wantedNext.has(peer);
  }

  isPartner(peer: PeerId): boolean {
    return this.#allowed.has(peer) && !this.#barred.has(peer);
  }

  /** Connections that the plan counts on. */
  streamsTo(peer: PeerId): number {
    return this.#streams.get(peer) ?? 1;
  }

  /** Links to those who are no partners any more close. */
  isParting(nowMs: number): boolean {
    return nowMs >= this.#partAtMs;
  }
}
