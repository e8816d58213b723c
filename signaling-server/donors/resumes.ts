/**
 * When a donor that rests is taken back: at once a few times, then once a minute, because each time costs everyone a
 * change of plan. To rest or to leave is never held up.
 */
import type { PeerId } from '../../swarm/base.ts';
import { monotonicMs } from '../monitoring/clock.ts';

const AT_ONCE = 5;
const EVERY_MS = 60_000;

interface Resting {
  /** How often it may come back at once. */
  allowance: number;
  sinceMs: number;
  timer?: NodeJS.Timeout;
}

export class Resumes {
  readonly #resting = new Map<PeerId, Resting>();

  /** It wants to come back: `resume` is called now, or later unless it says otherwise. */
  asked(peer: PeerId, resume: () => void): void {
    const nowMs = monotonicMs();
    const { allowance, sinceMs, timer } = this.#resting.get(peer) ?? { allowance: AT_ONCE, sinceMs: nowMs };
    clearTimeout(timer);
    const earned = Math.min(AT_ONCE, allowance + (nowMs - sinceMs) / EVERY_MS);
    const may = earned >= 1;
    const resting: Resting = { allowance: may ? earned - 1 : earned, sinceMs: nowMs };
    this.#resting.set(peer, resting);
    if (may) resume();
    else resting.timer = setTimeout(() => this.asked(peer, resume), Math.ceil((1 - earned) * EVERY_MS) + 1);
  }

  /** It goes on resting, or leaves: a `resume` that waits is cancelled. */
  withdrawn(peer: PeerId): void {
    clearTimeout(this.#resting.get(peer)?.timer);
  }

  gone(peer: PeerId): void {
    this.withdrawn(peer);
    this.#resting.delete(peer);
  }

  close(): void {
    for (const peer of [...this.#resting.keys()]) this.gone(peer);
  }
}
