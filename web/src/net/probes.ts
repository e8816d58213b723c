/** The links that are opened to be measured alone: for whom, until when, and who waits for them. Owns nothing. */
import type { PeerId } from '../../../swarm/base.ts';

/** Such a link is open for so long at most. */
export const PROBE_LIMIT_MS = 60_000;

interface Probe {
  readonly endMs: number;
  /** Once: whether the link is open. Null: nobody has begun to wait for it here. */
  readonly reached: ((isOpen: boolean) => void) | null;
  messages: number;
}

export class Probes {
  readonly #probes = new Map<PeerId, Probe>();

  has(peer: PeerId): boolean {
    return (this.#probes.get(peer)?.reached ?? null) !== null;
  }

  /** Begun, or asked for: the other end may begin first. */
  isExpected(peer: PeerId): boolean {
    return this.#probes.has(peer);
  }

  get peers(): PeerId[] {
    return [...this.#probes.keys()];
  }

  asked(peer: PeerId, nowMs: number): void {
    if (!this.#probes.has(peer)) this.#probes.set(peer, { endMs: nowMs + PROBE_LIMIT_MS, reached: null, messages: 0 });
  }

  /** Resolves when the link is open, or will not be. */
  begin(peer: PeerId, nowMs: number): Promise<boolean> {
    const messages = this.#probes.get(peer)?.messages ?? 0;
    return new Promise((reached) => this.#probes.set(peer, { endMs: nowMs + PROBE_LIMIT_MS, reached, messages }));
  }

  opened(peer: PeerId): void {
    this.#probes.get(peer)?.reached?.(true);
  }

  /** One more message has come over it; so many by now. */
  received(peer: PeerId): number {
    const probe = this.#probes.get(peer);
    if (probe) probe.messages += 1;
    return probe?.messages ?? Infinity;
  }

  /** Whoever still waits is told that the peer was not reached. */
  end(peer: PeerId): void {
    this.#probes.get(peer)?.reached?.(false);
    this.#probes.delete(peer);
  }

  over(nowMs: number): PeerId[] {
    return [...this.#probes].flatMap(([peer, { endMs }]) => (nowMs >= endMs ? peer : []));
  }
}
