/**
 * When the plan in force was made for donors that are not these any more. A donor has drifted when its work took more than
 * a fifth longer, or shorter, than its profile said when the plan was made, for ten steps one after the other.
 */
import type { PeerId } from '../base.ts';

const DRIFT = 0.2;
const DRIFT_STEPS = 10;

export const isOff = (measured: number, expected: number): boolean =>
  expected > 0 && (measured > (1 + DRIFT) * expected || measured < (1 - DRIFT) * expected);

interface Run {
  readonly slower: boolean;
  steps: number;
}

/** The steps in a row that each donor was off, in one direction. */
export class Drift {
  readonly #runs = new Map<PeerId, Run>();

  /** A step's work of one donor; true when it has drifted with it, once until `clear`. */
  step(peer: PeerId, measured: number, expected: number): boolean {
    if (!isOff(measured, expected)) {
      this.#runs.delete(peer);
      return false;
    }
    const slower = measured > expected;
    const run = this.#runs.get(peer);
    const steps = run?.slower === slower ? run.steps + 1 : 1;
    this.#runs.set(peer, { slower, steps });
    return steps === DRIFT_STEPS;
  }

  /** Profiles and plan are looked at anew. */
  clear(): void {
    this.#runs.clear();
  }
}
