/**
 * Whose words may make the server look for another plan. Its one idea: what a donor says of itself is judged by what
 * came of it, in time that the server measured. Looks that came to nothing, and plans that made no step shorter, silence
 * the donor whose words were behind them, each time for twice as long; one that helped restores it.
 */
import { doubledMs, type PeerId } from '../../swarm/base.ts';

/** Looks in vain that cost nothing: machines do swing. */
const FREE_LOOKS = 3;
const FIRST_SILENCE_MS = 60_000;
const LONGEST_SILENCE_MS = 3_600_000;
/** Steps of a new plan until it is judged, and by how much they have to be shorter. */
const TRIAL_STEPS = 10;
const LEAST_GAIN = 0.02;

interface Voice {
  readonly vain: number;
  readonly silentUntilMs: number;
}

export class Voices {
  readonly #voices = new Map<PeerId, Voice>();
  readonly #unheard = new Map<PeerId, string>();
  /** A plan that some donors' words brought about; null: nothing is to be judged. */
  #trial: { readonly by: readonly PeerId[]; readonly beforeSeconds: number | null } | null = null;

  /** Whether this word of a donor counts now; else it is kept for later, the newest one. */
  says(peer: PeerId, reason: string, nowMs: number): boolean {
    if (this.#speaks(peer, nowMs)) return true;
    this.#unheard.set(peer, reason);
    return false;
  }

  /** What it said while it was not listened to, once it is again. */
  late(peer: PeerId, nowMs: number): string | null {
    const reason = this.#unheard.get(peer);
    if (reason === undefined || !this.#speaks(peer, nowMs)) return null;
    this.#unheard.delete(peer);
    return reason;
  }

  /** A look came to nothing. */
  inVain(by: readonly PeerId[], nowMs: number): void {
    for (const peer of by) {
      const vain = (this.#voices.get(peer)?.vain ?? 0) + 1;
      const doublings = vain - FREE_LOOKS;
      const silence = doublings < 0 ? 0 : doubledMs(FIRST_SILENCE_MS, LONGEST_SILENCE_MS, doublings);
      this.#voices.set(peer, { vain, silentUntilMs: nowMs + silence });
    }
  }

  /** A plan begins; `by` whose words, and what a step took until now. The one before it is judged, however short it was. */
  began(by: readonly PeerId[], beforeSeconds: number | null, nowMs: number): void {
    this.#end(beforeSeconds, nowMs);
    this.#trial = by.length === 0 ? null : { by, beforeSeconds };
  }

  /** So many steps of the plan in force took so long each. */
  took(seconds: number, steps: number, nowMs: number): void {
    if (steps >= TRIAL_STEPS) this.#end(seconds, nowMs);
  }

  gone(peer: PeerId): void {
    this.#voices.delete(peer);
    this.#unheard.delete(peer);
  }

  #speaks(peer: PeerId, nowMs: number): boolean {
    return nowMs >= (this.#voices.get(peer)?.silentUntilMs ?? Number.NEGATIVE_INFINITY);
  }

  #end(seconds: number | null, nowMs: number): void {
    const trial = this.#trial;
    this.#trial = null;
    if (trial === null) return;
    const { by, beforeSeconds } = trial;
    const helped = seconds !== null && beforeSeconds !== null && seconds < beforeSeconds * (1 - LEAST_GAIN);
    if (!helped) this.inVain(by, nowMs);
    else for (const peer of by) this.#voices.delete(peer);
  }
}
