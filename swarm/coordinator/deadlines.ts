/**
 * How long everything may take, in one table: what it is predicted to take times a factor, at least a floor that slow
 * machines bear, at most a ceiling. What the plan's forecast says lifts the ceiling, to an hour: over home lines a step or
 * the way of the state may take long. Nothing that a donor does lifts it, and what one says alone hardly (CO77). Where nothing
 * is predicted there is a time of its own. Predictions are what this server saw of the same thing before, and what the plan's
 * forecast says.
 */
import { median } from '../base.ts';
import type { Predicted } from './events.ts';

export interface Allowance {
  readonly factor: number;
  readonly leastMs: number;
  readonly unknownMs: number;
  readonly mostMs: number;
}

export const DEADLINES = {
  /** For the next plan, beside the steps: pipelines, tokens, links. Nobody waits for it. */
  warmUp: { factor: 4, leastMs: 30_000, unknownMs: 60_000, mostMs: 120_000 },
  /** For a plan that nobody is warm for, and with the state: everyone waits. */
  gettingReady: { factor: 4, leastMs: 60_000, unknownMs: 120_000, mostMs: 600_000 },
  /** The state alone, to who is warm. Longer than a page tries a direct way before frames are relayed. */
  handOver: { factor: 4, leastMs: 20_000, unknownMs: 20_000, mostMs: 120_000 },
  /** Buffers warm up. */
  firstStep: { factor: 4, leastMs: 60_000, unknownMs: 60_000, mostMs: 600_000 },
  step: { factor: 4, leastMs: 10_000, unknownMs: 60_000, mostMs: 600_000 },
  /** At least half of those without whom there is no commit have reported: for the others, by how long that took. */
  lastReports: { factor: 3, leastMs: 10_000, unknownMs: 10_000, mostMs: 600_000 },
  /** All of them have: for those who only keep copies. */
  copies: { factor: 1, leastMs: 6_000, unknownMs: 6_000, mostMs: 60_000 },
  /** Of all groups, by the one before. */
  meeting: { factor: 4, leastMs: 60_000, unknownMs: 120_000, mostMs: 3_600_000 },
  evaluation: { factor: 4, leastMs: 60_000, unknownMs: 60_000, mostMs: 3_600_000 },
  /** The server is back: of each donor that comes back for the next one. Longer than a page pauses between two tries. */
  returning: { factor: 1, leastMs: 10_000, unknownMs: 10_000, mostMs: 60_000 },
  upload: { factor: 4, leastMs: 120_000, unknownMs: 120_000, mostMs: 600_000 },
} as const satisfies Record<string, Allowance>;

/** No forecast lifts a ceiling past this. */
const LONGEST_MS = 3_600_000;

/** What only one donor says of a step lifts no ceiling. */
export const UNSHARED_STEP_MS = DEADLINES.firstStep.mostMs / DEADLINES.firstStep.factor;

/** Of any body on its way to the server: half of the least rate that a donor may give. */
export const LEAST_BYTES_PER_MS = 5;

/** Beside the deadline that any upload has, so often as long as its bytes take at the least rate: the network fails too. */
const UPLOAD_FACTOR = 2;
export const longestUploadMs = (sizeBytes: number): number => (UPLOAD_FACTOR * sizeBytes) / LEAST_BYTES_PER_MS;

/** Where one donor goes others often do too: a plan waits until nobody has gone for so long, and no longer than this. */
export const DEPARTURES = { quietMs: 500, mostMs: 2_000 } as const;

/**
 * Of whom nothing is read for so long is taken for gone: it is replaced, and refused nothing. A donor that is admitted
 * sends a heartbeat each second. Three honest ones on two cores, beside six busy loops, let 1.8 s pass at most. Before it
 * is admitted its worker may be busy with the references of the check. The server looks each `lookMs`, so that 5 s of
 * silence are always too long. As long a member whose connection broke is waited for.
 */
export const SILENCE = { lookMs: 500, donorMs: 4_000, strangerMs: 20_000 } as const;

/** A member that waits for nobody and does nothing for so long, once a step is late, holds it up: as long as a whole step took. */
const QUIET_LEAST_MS = 5_000;
export const quietMs = (slowestMs: number | null, predicted: Predicted | null): number =>
  Math.max(QUIET_LEAST_MS, stepAllowedMs(slowestMs, predicted) / DEADLINES.step.factor);

/** Of steps that take less nobody is asked how far they are. */
export const QUICK_STEP_MS = 1_000;

/** What the server timed, of which it keeps the newest times. */
export type Timed = 'warmUp' | 'gettingReady' | 'handOver' | 'upload';
export type Seen = Readonly<Record<Timed, readonly number[]>>;

const SEEN_KEPT = 15;
export const NOTHING_SEEN: Seen = { warmUp: [], gettingReady: [], handOver: [], upload: [] };

export const withSeen = (seen: Seen, what: Timed, tookMs: number): Seen => ({
  ...seen,
  [what]: [...seen[what], tookMs].slice(-SEEN_KEPT),
});

/** `predictedMs`: null where nothing is predicted. */
export function allowedMs({ factor, leastMs, unknownMs, mostMs }: Allowance, predictedMs: number | null): number {
  if (predictedMs === null) return unknownMs;
  return Math.min(mostMs, Math.max(leastMs, factor * predictedMs));
}

/** The table's row for a plan whose forecast says so many ms. */
const foreseen = (allowance: Allowance, forecastMs: number | null | undefined): Allowance => ({
  ...allowance,
  mostMs: Math.max(allowance.mostMs, Math.min(LONGEST_MS, allowance.factor * (forecastMs ?? 0))),
});

/** Most donors decide what is usual, not the slowest: a stranger that dawdles buys no time. */
export function allowedFor(what: Timed, seen: Seen, predicted: Predicted | null = null): number {
  const usualMs = median(seen[what]);
  const isMoving = what === 'gettingReady' || what === 'handOver';
  const movingMs = (isMoving && predicted?.movingMs) || 0;
  const allowed = allowedMs(foreseen(DEADLINES[what], movingMs), (usualMs ?? 0) + movingMs);
  return usualMs === null ? Math.max(allowed, DEADLINES[what].unknownMs) : allowed;
}

/** `slowestMs`: of the steps committed with this plan; null: this is its first. */
export const stepAllowedMs = (slowestMs: number | null, predicted: Predicted | null): number =>
  slowestMs === null
    ? allowedMs(foreseen(DEADLINES.firstStep, predicted?.stepMs), predicted?.stepMs ?? null)
    : allowedMs(foreseen(DEADLINES.step, predicted?.stepMs), slowestMs);

/** `rounds`: how many steps' samples it reads. */
export function evaluationAllowedMs(slowestMs: number | null, predicted: Predicted | null, rounds: number): number {
  const stepMs = slowestMs ?? predicted?.stepMs ?? null;
  // Before the first step: as a first step, a round.
  const guessedMs = DEADLINES.firstStep.unknownMs / DEADLINES.firstStep.factor;
  return allowedMs(DEADLINES.evaluation, rounds * (stepMs ?? guessedMs));
}
