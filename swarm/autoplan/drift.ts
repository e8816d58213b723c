/**
 * When the plan in force was made for donors that are not these any more. A donor has drifted when its work took more than
 * a fifth longer, or shorter, than its profile said when the plan was made, for ten steps one after the other.
 */
const DRIFT = 0.2;
const DRIFT_STEPS = 10;

export const isOff = (measured: number, expected: number): boolean =>
  expected > 0 && (measured > (1 + DRIFT) * expected || measured < (1 - DRIFT) * expected);

/** The steps in a row that a donor was off, in one direction. */
export interface Drift {
  readonly slower: boolean;
  readonly steps: number;
}

/** With one more step's work; null: it was as expected. */
export function drifted(before: Drift | null, measured: number, expected: number): Drift | null {
  if (!isOff(measured, expected)) return null;
  const slower = measured > expected;
  return { slower, steps: before?.slower === slower ? before.steps + 1 : 1 };
}

/** True once, until it is as expected again. */
export const hasDrifted = (drift: Drift | null): boolean => drift?.steps === DRIFT_STEPS;
