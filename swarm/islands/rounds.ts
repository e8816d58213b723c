/**
 * Which step is done when by whom, in a run with islands (`train.islands`): K replicas of the model that take H steps
 * apart and then meet. One group of donors computes all of them by turns: in a round first every step of island 0, then
 * every step of island 1, and so on. Three things that are one in a run without islands are told apart:
 * - the *count*: how many steps stand committed. Messages, epochs, the store and checkpoints go by it.
 * - the *number*: which samples and which learning rate, and the `step` of a metrics line.
 * - the *time*: an island's own updates, for AdamW's bias correction.
 */
import { arrayOf, invariant } from '../base.ts';
import type { CountedIslands, Islands, Train } from '../run/runFile.ts';

type Rounds = Pick<Train, 'steps' | 'islands'>;

/** What is done when `count` steps stand committed. */
export interface Turn {
  readonly number: number;
  readonly island: number;
  readonly round: number;
  /** Its place in its island's list of this round, from 0. */
  readonly innerStep: number;
  /** Updates of this island, this one included. */
  readonly time: number;
  /** The island's last step of this round: what follows is another island's, or a meeting. */
  readonly endsTurn: boolean;
  /** The round's last step: a meeting follows. So it is after every step of a run without islands. */
  readonly endsRound: boolean;
}

/** Its rounds do not follow from the run file: what was done in each is recorded. */
export const isRecorded = ({ islands }: Pick<Rounds, 'islands'>): boolean => islands?.count === 'auto';

/** What follows from the run file alone; with `count: "auto"` it is recorded, and asked of the record (giving.ts). */
function counted(islands: Islands): CountedIslands {
  invariant(islands.count !== 'auto', 'the rounds of as many islands as there are groups are recorded');
  return islands;
}

/** Round r gives island k the numbers (r·H + h)·K + k for h = 0 … H−1, those of them below `steps`. */
export function turnAt({ steps, islands }: Rounds, count: number): Turn {
  if (!islands)
    return { number: count, island: 0, round: count, innerStep: 0, time: count + 1, endsTurn: true, endsRound: true };
  const { count: K, innerSteps: H } = counted(islands);
  const round = Math.floor(count / (K * H));
  const first = round * K * H;
  const size = count < steps ? Math.min(K * H, steps - first) : K * H;
  // In a last round that is cut short the first `longer` islands do one step more than the others.
  const least = Math.floor(size / K);
  const longer = size % K;
  const place = count - first;
  const past = place - longer * (least + 1);
  const list = past < 0 ? least + 1 : least;
  const island = past < 0 ? Math.floor(place / list) : longer + Math.floor(past / list);
  const innerStep = (past < 0 ? place : past) % list;
  return {
    number: first + innerStep * K + island,
    island,
    round,
    innerStep,
    time: round * H + innerStep + 1,
    endsTurn: innerStep === list - 1,
    endsRound: place === size - 1,
  };
}

/** What was committed in this order; with islands each with its number and whose it is. */
export function withNumbers<Step extends { readonly step: number }>(
  rounds: Rounds,
  steps: readonly Step[],
): readonly (Step & { readonly number?: number; readonly island?: number })[] {
  // Where rounds are recorded each step says it.
  if (!rounds.islands || rounds.islands.count === 'auto') return steps;
  return steps.map((step) => {
    const { number, island } = turnAt(rounds, step.step);
    return { ...step, number, island };
  });
}

/** Steps by their numbers, which then stand in place of the counts. */
export function byNumber<Step extends { readonly step: number; readonly number?: number | undefined }>(
  steps: readonly Step[],
): readonly Step[] {
  if (steps.every(({ number }) => number === undefined)) return steps;
  return steps.map((step) => ({ ...step, step: step.number ?? step.step })).toSorted((a, b) => a.step - b.step);
}

/** Steps of a whole round; where rounds are recorded, of the shortest that there may be. */
export const roundLength = ({ islands }: Pick<Rounds, 'islands'>): number =>
  islands && islands.count !== 'auto' ? islands.count * islands.innerSteps : 1;

/** At least so many steps, in whole rounds. */
export const wholeRounds = (rounds: Pick<Rounds, 'islands'>, steps: number): number =>
  Math.ceil(steps / roundLength(rounds)) * roundLength(rounds);

/** Of the round that begins with step `first`, how many of these islands are committed at `position`. */
export function stepsBefore(rounds: Rounds, first: number, position: number, own: readonly number[]): number {
  const steps = roundSteps(rounds, first);
  let [done, from] = [0, first];
  for (const [island, length] of steps.entries()) {
    if (own.includes(island)) done += Math.min(length, Math.max(0, position - from));
    from += length;
  }
  return done;
}

/** How many steps each island does in the round that this step is of. */
export function roundSteps({ steps, islands }: Rounds, count: number): number[] {
  if (!islands) return [1];
  const { count: K, innerSteps: H } = counted(islands);
  const first = Math.floor(count / (K * H)) * K * H;
  const size = Math.min(K * H, steps - first);
  return arrayOf(K, (island) => Math.ceil(Math.max(0, size - island) / K));
}

/** The count at which the round ends that this step is of. */
export const roundEnd = (rounds: Rounds, count: number): number => {
  const { steps } = rounds;
  const length = roundLength(rounds);
  const end = (Math.floor(count / length) + 1) * length;
  return count < steps ? Math.min(end, steps) : end;
};

/**
 * The first step from this count on, in the same round, that is of one of these islands (absent: all); null: there is none,
 * and the meeting is next.
 */
export function nextStep(rounds: Rounds, count: number, own?: readonly number[]): number | null {
  if (!own) return count;
  if (count >= rounds.steps) return null;
  const end = roundEnd(rounds, count);
  for (let next = count; next < end; ) {
    const { island, innerStep } = turnAt(rounds, next);
    if (own.includes(island)) return next;
    next += (roundSteps(rounds, next)[island] ?? 0) - innerStep;
  }
  return null;
}

/** The first step from this count on that is of one of these islands, in whatever round; null: the run has none. */
export function laterStep(rounds: Rounds, count: number, own?: readonly number[]): number | null {
  for (let from = count; from < rounds.steps; from = roundEnd(rounds, from)) {
    const found = nextStep(rounds, from, own);
    if (found !== null) return found;
  }
  return null;
}

/**
 * Of which steps something may come to a member of a group while it is at this one: nobody is further than the next step, or
 * than the first one after a meeting, whose values are of the round's end.
 */
export function stepsAhead(rounds: Rounds, step: number, own?: readonly number[]): readonly number[] {
  if (!own) return [step + 1];
  const end = roundEnd(rounds, step);
  const next = step + 1 < end ? nextStep(rounds, step + 1, own) : null;
  return next !== null ? [next] : [end, nextStep(rounds, end, own) ?? roundEnd(rounds, end)];
}

/** Whether no other step of these islands follows this one in its round. */
export const endsRoundOf = (rounds: Rounds, count: number, own?: readonly number[]): boolean =>
  own === undefined
    ? turnAt(rounds, count).endsRound
    : count + 1 === roundEnd(rounds, count) || nextStep(rounds, count + 1, own) === null;

/** Whether a meeting has just been held when `count` steps stand committed; the start is one. */
export const isMeeting = (rounds: Rounds, count: number): boolean =>
  count % roundLength(rounds) === 0 || count === rounds.steps;

/** How far the round under way is when `count` steps stand committed, island by island. */
export function roundSoFar(rounds: Rounds, count: number) {
  const isOver = count >= rounds.steps;
  const { round, island, innerStep } = turnAt(rounds, isOver ? rounds.steps - 1 : count);
  const islands = roundSteps(rounds, isOver ? rounds.steps - 1 : count).map((innerSteps, number) => {
    const isDone = isOver || number < island;
    return { number, innerStep: isDone ? innerSteps : number === island ? innerStep : 0, innerSteps };
  });
  return { round, active: isOver ? null : island, islands };
}
