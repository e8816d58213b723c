/** Which donors may reach each other, in a run that has one group of donors or several: each has its own plan (pairs.ts). */
import type { PeerId } from '../../swarm/base.ts';
import type { TensorKey } from '../../swarm/messages/frame.ts';
import type { ServerMessage } from '../../swarm/messages/messages.ts';
import type { Grant } from './allowance.ts';
import { MeetingWays, Pairs, type RunSizes } from './pairs.ts';

/** The group that has all islands, or whose run has none. */
const ALL = 'all';

export class GroupPairs {
  readonly #sizes: RunSizes;
  readonly #meeting: MeetingWays;
  /** By the islands of each. */
  readonly #groups = new Map<string, Pairs>();
  readonly #groupOf = new Map<PeerId, string>();

  constructor(sizes: RunSizes) {
    this.#sizes = sizes;
    this.#meeting = new MeetingWays(sizes);
  }

  /** What the server tells a donor, before it is sent. */
  told(to: PeerId, message: ServerMessage, nowMs: number): void {
    if (message.type === 'prepare' || message.type === 'warm') this.#move(to, message.plan.islands?.join() ?? ALL);
    this.#of(to).told(to, message, nowMs);
  }

  /** It is not a part of anything any more. */
  gone(peer: PeerId): void {
    this.#of(peer).gone(peer);
    this.#groupOf.delete(peer);
  }

  /** Whom a donor exchanges tensors with. */
  partners(peer: PeerId): PeerId[] {
    return this.#of(peer).partners(peer);
  }

  reached(peer: PeerId): PeerId[] {
    return this.#of(peer).reached(peer);
  }

  maySignal(from: PeerId, to: PeerId, length: number, nowMs: number): boolean {
    return this.#of(from).maySignal(from, to, length, nowMs);
  }

  isPair(from: PeerId, to: PeerId): boolean {
    return this.#of(from).isPair(from, to);
  }

  take(from: PeerId, to: PeerId, bytes: number): boolean {
    return this.#of(from).take(from, to, bytes);
  }

  spent(from: PeerId, to: PeerId, bytes: number): void {
    this.#of(from).spent(from, to, bytes);
  }

  handOn(from: PeerId, to: PeerId): Grant | null {
    return this.#of(from).handOn(from, to);
  }

  stepsSince(from: PeerId, to: PeerId, key: TensorKey): number | 'none' | null {
    return this.#of(from).stepsSince(from, to, key);
  }

  #of(peer: PeerId): Pairs {
    const name = this.#groupOf.get(peer) ?? ALL;
    const known = this.#groups.get(name) ?? new Pairs(this.#sizes, this.#meeting);
    this.#groups.set(name, known);
    return known;
  }

  #move(peer: PeerId, name: string): void {
    const before = this.#groupOf.get(peer);
    if (before === name) return;
    if (before !== undefined) this.#of(peer).gone(peer);
    this.#groupOf.set(peer, name);
    const left = new Set(this.#groupOf.values());
    for (const other of this.#groups.keys()) if (other !== ALL && !left.has(other)) this.#groups.delete(other);
  }
}
