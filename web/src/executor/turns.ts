/**
 * Which number each step is, at a donor: it follows from the run file, or, where rounds are recorded (`count: "auto"`), the
 * server says it with each step.
 */
import { got } from '../../../swarm/base.ts';
import { mostOfRound } from '../../../swarm/islands/giving.ts';
import { isRecorded, nextStep, stepsAhead, turnAt } from '../../../swarm/islands/rounds.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { TurnEnd } from '../../../swarm/schedule/action.ts';
import { turnEnd } from '../../../swarm/schedule/lower.ts';

interface ToldTurn {
  readonly number: number;
  readonly time: number;
}

type Own = Plan['islands'];

/** Of the same step, again and again: those before are done. */
const STEPS_KEPT = 2;

export class Turns {
  readonly #told = new Map<number, ToldTurn>();

  told(step: number, turn: ToldTurn | undefined): void {
    if (!turn) return;
    this.#told.delete(step);
    this.#told.set(step, turn);
    for (const oldest of [...this.#told.keys()].slice(0, -STEPS_KEPT)) this.#told.delete(oldest);
  }

  of(train: Train, step: number): ToldTurn {
    return isRecorded(train) ? got(this.#told, step) : turnAt(train, step);
  }

  /** The first of the step's samples, numbered over the whole run. */
  firstSample(train: Train, step: number): number {
    return this.of(train, step).number * train.globalBatchSize;
  }

  /** Whether this step is next where so many stand. */
  isNext(train: Train, committed: number, own: Own, step: number): boolean {
    return isRecorded(train) ? step === committed && this.#told.has(step) : nextStep(train, committed, own) === step;
  }
}

/** Of which steps something may come at this one: of the next, or of the first after a meeting, wherever its round ends. */
export function aheadOf(train: Train, step: number, own: Own): Pick<readonly number[], 'includes'> {
  if (!isRecorded(train)) return stepsAhead(train, step, own);
  const last = step + mostOfRound(train.steps);
  return { includes: (other) => other > step && other <= last };
}

/** What the step is the end of at who has these islands; where rounds are recorded, of nothing. */
export const endOfTurn = (train: Train, step: number, own: Own): TurnEnd | null =>
  isRecorded(train) ? null : turnEnd(train, turnAt(train, step), own);
