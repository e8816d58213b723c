/**
 * How long everything may take, in one table: what it is predicted to take times a factor, at least a floor that slow
 * machines bear, at most a ceiling. What the plan's forecast says lifts the ceiling, to an hour: over home lines a step or
 * the way of the state may take long. Nothing that a donor does lifts it, and what one network says alone hardly
 * (autoplan/believed.ts). Where nothing is predicted there is a time of its own. Predictions are what this server saw of the
 * same thing before, and what the plan's forecast says. See SPEC.md, CO73.
 */
import { median, type PeerId } from '../base.ts';
import { type Model, standingOfStage, usedElements } from '../model/model.ts';
import type { Plan } from '../plan/plan.ts';
import { FLOAT_BYTES } from '../plan/stateKinds.ts';
import type { Predicted } from './events.ts';

interface Allowance {
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
  /** At least half of a checkpoint's shards' primaries have sent theirs: for who sends nothing of its own, by how long that took. */
  lastUploads: { factor: 3, leastMs: 8_000, unknownMs: 8_000, mostMs: 120_000 },
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

/**
 * The server is back, and the newest checkpoint has all: so long their places are kept for those who were at work, from
 * the first donor's coming on. Where one of those here was here before, their tabs still try: a browser lets some seconds
 * pass between two connections that fail.
 */
export const PLACES_KEPT = { strangersMs: 3_000, mostMs: 10_000 } as const;

/** Where one donor goes others often do too: a plan waits until nobody has gone for so long, and no longer than this. */
export const DEPARTURES = { quietMs: 500, mostMs: 2_000 } as const;

/**
 * Of whom nothing is read for so long is taken for gone: it is replaced, and refused nothing. A donor that is admitted
 * sends a heartbeat each second. Three honest ones on two cores, beside six busy loops, let 1.8 s pass at most. Before it
 * is admitted its worker may be busy with the references of the check. The server looks each `lookMs`, so that 5 s of
 * silence are always too long. As long a member whose connection broke is waited for.
 */
export const SILENCE = { lookMs: 500, donorMs: 4_000, strangerMs: 20_000 } as const;

/** The slowest and the fastest step committed with a plan; null before the first. */
export interface Pace {
  readonly slowestMs: number | null;
  readonly fastestMs: number | null;
}

/** How far members are is looked at when half of a step's time is over, and from then on so often. */
const LOOK_LEAST_MS = 7_000;
export const LOOK_AGAIN_MS = 2_000;
export const lookWithinMs = (allowed: number): number => Math.max(LOOK_LEAST_MS, allowed / 2);
export const lookMs = (pace: Pace, predicted: Predicted | null): number => lookWithinMs(stepAllowedMs(pace, predicted));

/** A member that waits for nobody and does nothing for so long, where that is looked at, holds a step up: as long as a whole step took. */
const QUIET_LEAST_MS = 5_000;
export const quietMs = (pace: Pace, predicted: Predicted | null): number =>
  Math.max(QUIET_LEAST_MS, stepAllowedMs(pace, predicted) / DEADLINES.step.factor);

/** Between two of a step that half have reported after so long: no longer than that took. Null: fewer have. */
export const stillMs = (pace: Pace, predicted: Predicted | null, halfReportedMs: number | null): number =>
  Math.min(quietMs(pace, predicted), Math.max(QUIET_LEAST_MS, halfReportedMs ?? Number.POSITIVE_INFINITY));

/** Of steps that take less nobody is asked how far they are. */
export const QUICK_STEP_MS = 1_000;

/** What the server timed, of which it keeps the newest times. */
type Timed = 'warmUp' | 'gettingReady' | 'handOver' | 'upload';
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

/** Of a base on its way from the server: a slow home line. */
const BASE_BYTES_PER_MS = 500;

/**
 * For the weights that stand beside an adapter, which a member of the plan may have to fetch first: beside its deadline as
 * long as the most of them take, an hour at most. 0 where all are trained.
 */
export function baseAllowedMs(model: Model, { stages }: Plan): number {
  const bytes = new Map<PeerId, number>();
  for (const { layers, members } of stages) {
    const own = FLOAT_BYTES * usedElements(standingOfStage(model, layers));
    for (const { peer } of members) bytes.set(peer, (bytes.get(peer) ?? 0) + own);
  }
  return Math.min(LONGEST_MS, Math.max(0, ...bytes.values()) / BASE_BYTES_PER_MS);
}

export const paceOf = ({ slowestMs, fastestMs }: Pace): Pace => ({ slowestMs, fastestMs });

export const paceAfter = ({ slowestMs, fastestMs }: Pace, tookMs: number): Pace => ({
  slowestMs: Math.max(slowestMs ?? tookMs, tookMs),
  fastestMs: Math.min(fastestMs ?? tookMs, tookMs),
});

/**
 * No step has longer than this, the table's factor of the fastest one of its plan, or so often its prediction, whichever is
 * longest: who dawdles a little more in each step would else have ever more time.
 */
const DAWDLED_MS = 30_000;
const MOST_OF_PREDICTION = 20;

function slowestCounted({ slowestMs, fastestMs }: Pace, predictedMs: number | null): number | null {
  if (slowestMs === null || fastestMs === null) return null;
  const { factor } = DEADLINES.step;
  const mostMs = Math.max(DAWDLED_MS, factor * fastestMs, MOST_OF_PREDICTION * (predictedMs ?? fastestMs));
  return Math.min(slowestMs, mostMs / factor);
}

export function stepAllowedMs(pace: Pace, predicted: Predicted | null): number {
  const { step, firstStep } = DEADLINES;
  const stepMs = predicted?.stepMs ?? null;
  const slowestMs = slowestCounted(pace, stepMs);
  return slowestMs === null
    ? allowedMs(foreseen(firstStep, stepMs), stepMs)
    : allowedMs(foreseen(step, stepMs), slowestMs);
}

/** `rounds`: how many steps' samples it reads. */
export function evaluationAllowedMs(pace: Pace, predicted: Predicted | null, rounds: number): number {
  const predictedMs = predicted?.stepMs ?? null;
  const stepMs = slowestCounted(pace, predictedMs) ?? predictedMs;
  // Before the first step: as a first step, a round.
  const guessedMs = DEADLINES.firstStep.unknownMs / DEADLINES.firstStep.factor;
  return allowedMs(DEADLINES.evaluation, rounds * (stepMs ?? guessedMs));
}
