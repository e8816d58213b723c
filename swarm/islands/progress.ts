/** How far a training state can have come since an earlier one, with islands or without. See SPEC.md, SV50. */
import { largestUpdate, type Progress, progress } from '../run/plausibleState.ts';
import type { AutoIslands, CountedIslands, Train } from '../run/runFile.ts';
import { mostOfRound } from './giving.ts';
import { roundLength, turnAt } from './rounds.ts';

type Trained = Pick<Train, 'steps' | 'optimizer' | 'schedule' | 'islands'>;

/** What the steps that were committed between two checkpoints can have done to a weight. */
export const progressOf = (train: Trained, from: number, to: number): Progress =>
  train.islands === undefined
    ? progress(train, from, to)
    : train.islands.count === 'auto'
      ? overRecorded(train, train.islands, from, to)
      : overRounds(train, train.islands, from, to);

const summedUp = (share: number, rounds: number): number =>
  share === 1 ? rounds : (1 - share ** rounds) / (1 - share);

/**
 * Of whole rounds, at the highest rate. A meeting moves the shared values by the outer rate times D + momentum·V. D is
 * a mean of what the islands send, which is no more than their left-overs: a sparse packet has no larger norm than what it is
 * of, and leaves no more behind. So D is at most the furthest way of an island in a round, and that of each earlier one times
 * `feedback` once more; V adds up D in the same way.
 */
function overRounds(
  train: Trained,
  { outer, exchange, innerSteps }: CountedIslands,
  from: number,
  to: number,
): Progress {
  const { learningRate: rate, betas, weightDecay } = train.optimizer;
  const feedback = exchange === 'f32' ? 0 : exchange.feedback;
  let ways = 0;
  for (let count = from; count < to; count += roundLength(train)) {
    const rounds = turnAt(train, count).round + 1;
    ways += outer.learningRate * summedUp(feedback, rounds) * (1 + outer.momentum * summedUp(outer.momentum, rounds));
  }
  const furthest = rate > 0 ? innerSteps * rate * largestUpdate(betas, turnAt(train, to - 1).time) : 0;
  const way = { reach: furthest, decay: innerSteps * rate * weightDecay };
  const last = turnAt(train, to - 1).round + 1;
  const leftOver = summedUp(feedback, last);
  return {
    ...{ steps: to - from, reach: ways * way.reach, decay: ways * way.decay },
    rounds: { way, leftOver, velocity: leftOver * summedUp(outer.momentum, last) },
  };
}

/**
 * Of rounds that only the record knows: none is longer than `mostOfRound`, and there are no more than steps. What the rounds
 * before left over, and their momentum, is of a longest round at most, and moves the values in these.
 */
function overRecorded(train: Trained, { outer, exchange }: AutoIslands, from: number, to: number): Progress {
  const { learningRate: rate, betas, weightDecay } = train.optimizer;
  const furthest = rate > 0 ? rate * largestUpdate(betas, to) : 0;
  const longest = mostOfRound(train.steps);
  const leftOver = summedUp(exchange === 'f32' ? 0 : exchange.feedback, to);
  const pushed = outer.learningRate * leftOver * (1 + outer.momentum * summedUp(outer.momentum, to));
  const steps = to - from + longest * leftOver * (1 + summedUp(outer.momentum, to));
  return {
    ...{ steps: to - from, reach: pushed * steps * furthest, decay: pushed * steps * rate * weightDecay },
    rounds: {
      way: { reach: longest * furthest, decay: longest * rate * weightDecay },
      leftOver,
      velocity: leftOver * summedUp(outer.momentum, to),
    },
  };
}
