/**
 * Whose words may make the server look for another plan. What a donor says of itself is judged by what came of it, in time
 * that the server measured: looks that came to nothing, and plans that made no step shorter, silence the donor whose words
 * were behind them, each time for twice as long; one that helped restores it.
 */
import { doubledMs, type PeerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';

/** Looks in vain that cost nothing: machines do swing. */
const FREE_LOOKS = 3;
const FIRST_SILENCE_MS = 60_000;
const LONGEST_SILENCE_MS = 3_600_000;
/** Steps of a new plan until it is judged, and by how much they have to be shorter. */
export const TRIAL_STEPS = 10;
const LEAST_GAIN = 0.02;

export interface Standing {
  /** Looks in vain, one after the other. */
  readonly inVain: number;
  readonly silentUntilMs: number | null;
  /** The newest word that was not listened to. */
  readonly deferredReason: string | null;
}

export const NEW_STANDING: Standing = { inVain: 0, silentUntilMs: null, deferredReason: null };

export const isHeard = ({ silentUntilMs }: Standing, nowMs: number): boolean =>
  silentUntilMs === null || nowMs >= silentUntilMs;

/** A look came to nothing. */
export function lookedInVain(standing: Standing, nowMs: number): Standing {
  const inVain = standing.inVain + 1;
  const doublings = inVain - FREE_LOOKS;
  const silence = doublings < 0 ? 0 : doubledMs(FIRST_SILENCE_MS, LONGEST_SILENCE_MS, doublings);
  return { ...standing, inVain, silentUntilMs: nowMs + silence };
}

/** It helped: as one of whom nothing is known. */
export const restored = ({ deferredReason }: Standing): Standing => ({ ...NEW_STANDING, deferredReason });

/** A new plan: whose words brought it about, and what a step took until then. */
export interface Trial {
  readonly by: readonly PeerId[];
  /** Null: no step was done, or this plan was forced. */
  readonly beforeSeconds: number | null;
  /** Of that, beyond what was predicted. */
  readonly besideSeconds: number;
  /** Of its own steps, by what its members say; null: a member measured nothing. */
  readonly predictedSeconds: number | null;
  /** The plan until then; null: this one was forced. */
  readonly before: Plan | null;
}

/** Who is tried as the slow one (suspicion.ts), and what it was taken for before. */
export interface Suspicion {
  readonly peer: PeerId;
  readonly slowdown: number;
  readonly stepsSeen: number;
}

/** `seconds`: of a step since then; null: none was done. */
export const hasHelped = ({ beforeSeconds }: Pick<Trial, 'beforeSeconds'>, seconds: number | null): boolean =>
  seconds !== null && beforeSeconds !== null && seconds < beforeSeconds * (1 - LEAST_GAIN);
