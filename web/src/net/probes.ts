/** The links that are opened to be measured alone: for whom, until when, and who waits for them. Owns nothing. */
import type { PeerId } from '../../../swarm/base.ts';

/** Such a link is open for so long at most. */
export const PROBE_LIMIT_MS = 60_000;

interface Probe {
  readonly endMs: number;
  /** Once: whether the link is open. */
  readonly reached: (isOpen: boolean) => void;
}

export class Probes {
  readonly #probes = new Map<PeerId, Probe>();

  has(peer: PeerId): boolean {
    return this.#probes.has(peer);
  }

  get peers(): PeerId[] {
    return [...this.#probes.keys()];
  }

  /** Resolves when the link is open, or will not be. */
  begin(peer: PeerId, nowMs: number): Promise<boolean> {
    return new Promise((reached) => this.#probes.set(peer, { endMs: nowMs + PROBE_LIMIT_MS, reached }));
  }

  opened(peer: PeerId): void {
    this.#probes.get(peer)?.reached(true);
  }

  /** Whoever still waits is told that the peer was not reached. */
  end(peer: PeerId): void {
    this.#probes.get(peer)?.reached(false);
    this.#probes.delete(peer);
  }

  over(nowMs: number): PeerId[] {
    return [...this.#probes].flatMap(([peer, { endMs }]) => (nowMs >= endMs ? peer : []));
  }
}
