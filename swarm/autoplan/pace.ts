/**
 * How fast the plan in force is, by the server's own clock, whatever donors report: a step is as long as from commit to
 * commit, and getting ready as long as from the plan to its first start.
 */
import { median } from '../base.ts';

/** Getting ready, until it was measured: kernels compile, links open. Longer ones were waits for something else. */
const PREPARE_SECONDS = 3;
const MOST_PREPARE_SECONDS = 20;
const STEPS_KEPT = 32;
/** Of a plan, until their median says something. */
const LEAST_STEPS = 5;
/** Steps before a change that those after it are held against: as many as a drift takes. */
const STEPS_BEFORE = 10;

export interface Pace {
  /** Seconds of this plan's newest steps. */
  readonly steps: readonly number[];
  /** When a plan began whose first step has not started; null: there is none. */
  readonly begunMs: number | null;
  /** When the first step of this plan started; null: it did not. */
  readonly startedMs: number | null;
  /** Of getting ready for a plan, the newest time. */
  readonly prepareSeconds: number;
}

export const NO_PACE: Pace = { steps: [], begunMs: null, startedMs: null, prepareSeconds: PREPARE_SECONDS };

/** Null before the first step. */
export const stepSeconds = ({ steps }: Pace): number | null => median(steps);

/** What a step takes beside what is predicted, as far as it is known: with any plan. */
export function besideSeconds(pace: Pace, predictedSeconds: number): number {
  const measured = pace.steps.length < LEAST_STEPS ? null : stepSeconds(pace);
  return measured === null ? 0 : Math.max(0, measured - predictedSeconds);
}

/** What the last steps took, before a change; null: there were none. */
export const lastSeconds = ({ steps }: Pace): number | null => median(steps.slice(-STEPS_BEFORE));

export const planBegan = (pace: Pace, nowMs: number): Pace => ({
  ...pace,
  steps: [],
  begunMs: nowMs,
  startedMs: null,
});

/** With the first step everybody is ready. */
export const stepStarted = (pace: Pace, nowMs: number): Pace =>
  pace.begunMs === null
    ? pace
    : {
        ...pace,
        prepareSeconds: Math.min(MOST_PREPARE_SECONDS, (nowMs - pace.begunMs) / 1_000),
        begunMs: null,
        startedMs: nowMs,
      };

export const stepTook = (pace: Pace, seconds: number): Pace => ({
  ...pace,
  steps: [...pace.steps, seconds].slice(-STEPS_KEPT),
});
