/**
 * Drafts that are worth simulating, found by guessing alone: where the search begins, every grouping with every size; and
 * a draft improved by small moves as long as the guess falls.
 */
import type { Plan } from '../plan/plan.ts';
import { SCHEDULE_NAMES, type ScheduleName } from '../schedule/action.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { Draft } from './draft.ts';
import { equalWork, splitProblem } from './equalSplit.ts';
import { type Estimated, estimate } from './estimate.ts';
import type { Groups } from './grouping.ts';
import { groupMoves, keepersOf, otherSizes } from './moves.ts';
import { canonicalOrder, starts } from './starts.ts';

/** Stages of micro-batches that a candidate may have at most: larger ones only cost time to judge. */
const MOST_WORK = 8_192;
/** Of many groupings only the best are guessed at in every size. */
const MOST_IN_EVERY_SIZE = 24;
/** A guess less better than this part is no better. */
const GAIN = 1e-6;

/** The best first, those that do not fit last. It rests after every grouping: whoever asks has other things to do. */
export function* rankedStarts(costs: ClusterCosts): Generator<void, Estimated[]> {
  const groupings = starts(costs);
  const byGuess = (a: Estimated, b: Estimated): number => a.seconds - b.seconds || a.missingBytes - b.missingBytes;
  const guesses: Estimated[] = [];
  const chosen: Groups[] = [];
  if (groupings.length <= 8 * MOST_IN_EVERY_SIZE) chosen.push(...groupings);
  else {
    for (const groups of groupings) {
      guesses.push(...roughGuess(costs, groups));
      yield;
    }
    const stages = new Set<number>();
    for (const { draft } of guesses.sort(byGuess)) {
      if (chosen.length < MOST_IN_EVERY_SIZE || !stages.has(draft.groups.length)) chosen.push(draft.groups);
      stages.add(draft.groups.length);
    }
  }
  for (const groups of chosen) {
    guesses.push(...inEverySize(costs, groups));
    yield;
  }
  return guesses.sort(byGuess);
}

function inEverySize(costs: ClusterCosts, groups: Groups): Estimated[] {
  return microBatchCounts(costs, groups).flatMap((size) =>
    SCHEDULE_NAMES.flatMap((schedule) =>
      // Cephalo's sizes are for one micro-batch in flight.
      size === 'sized' && schedule === 'gpipe' ? [] : (estimate(costs, groups, size, schedule) ?? []),
    ),
  );
}

/** Sizes to try: from one for each stage and lane, doubled up to a sample each. */
export function microBatchCounts(costs: ClusterCosts, groups: Groups): (number | 'sized')[] {
  const { lanes, most } = boundsOf(costs, groups);
  const counts: (number | 'sized')[] = groups.length === 1 && lanes > 1 ? ['sized'] : [];
  if (lanes > most) return counts;
  for (let count = Math.min(most, Math.max(lanes, groups.length)); count < most; count *= 2) counts.push(count);
  return [...counts, most];
}

/** Under 1F1B, which fits where gpipe does; in small micro-batches where larger ones do not fit. */
function roughGuess(costs: ClusterCosts, groups: Groups): Estimated[] {
  const { lanes, most } = boundsOf(costs, groups);
  if (lanes > most) return [];
  const guess = estimate(costs, groups, Math.min(most, Math.max(lanes, 4 * groups.length)), '1f1b');
  if (guess === null || guess.missingBytes === 0) return guess === null ? [] : [guess];
  return [estimate(costs, groups, most, '1f1b') ?? guess];
}

function boundsOf({ batch: { samples } }: ClusterCosts, groups: Groups) {
  const lanes = groups.reduce((most, group) => Math.max(most, group.length), 0);
  return { lanes, most: Math.min(samples, Math.max(lanes, Math.floor(MOST_WORK / groups.length))) };
}

/** Small moves that help, going on where the last one was found, until none does or so many were tried. */
export function polished(
  costs: ClusterCosts,
  start: Estimated,
  mostTried: number,
): Estimated & { readonly tried: number } {
  let best = start;
  let tried = 0;
  for (let isMoving = true; isMoving && tried < mostTried; ) {
    isMoving = false;
    for (const next of drafted(costs, best)) {
      tried++;
      if (next !== null && next.seconds < best.seconds * (1 - GAIN)) {
        best = next;
        isMoving = true;
        break;
      }
      if (tried >= mostTried) break;
    }
  }
  return { ...best, tried };
}

function* drafted(costs: ClusterCosts, { draft }: Estimated): Generator<Estimated | null> {
  yield* otherSizes(costs, draft);
  if (draft.microBatches === 'sized') return;
  for (const groups of groupMoves(costs, draft.groups))
    yield estimate(costs, groups, draft.microBatches, draft.schedule, undefined, keepersOf(draft, groups));
}

/** The plans that take everyone for equals, without their state: the search never answers with less. */
export function equalSplits(costs: ClusterCosts): [Plan, Draft][] {
  const { model, batch, peers } = costs;
  const orders = [peers.map((_, place) => place), canonicalOrder(costs)];
  const found = new Map<string, [Plan, Draft]>();
  for (const order of orders) {
    const ids = order.flatMap((place) => peers[place]?.id ?? []);
    const place = new Map(order.map((at) => [peers[at]?.id, at]));
    for (let stages = 1; stages <= Math.min(model.layers, ids.length, 8); stages++) {
      for (const schedule of SCHEDULE_NAMES) {
        const options: { readonly stages: number; readonly schedule: ScheduleName } = { stages, schedule };
        if (splitProblem(model, batch.samples, ids.length, options) !== null) continue;
        const plan = equalWork(model, batch.samples, ids, options);
        if (plan.stages.length * plan.microBatches.length > MOST_WORK) continue;
        const groups = plan.stages.map(({ members }) => members.map(({ peer }) => place.get(peer) ?? 0));
        const layers = plan.stages.map(({ layers: [from, to] }) => to - from);
        const draft: Draft = { groups, layers, microBatches: plan.microBatches.length, schedule };
        found.set(JSON.stringify(draft), [plan, draft]);
      }
    }
  }
  return [...found.values()];
}
