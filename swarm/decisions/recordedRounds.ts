/**
 * Rounds that are not known before (`count: "auto"`): every group has one island, numbers are given out one at a time to
 * whoever stands ready (giving.ts), and a round is over when nobody may have another one. What there is of it is then
 * recorded, number by number, with the commits.
 */
import { arrayOf, at, total, totalOf } from '../base.ts';
import type { IslandTurn, Recorded, StartState } from '../coordinator/events.ts';
import type { CoordinatorState } from '../coordinator/state.ts';
import { nextStepOf } from '../coordinator/stepsAhead.ts';
import {
  allFree,
  type Free,
  givenBack,
  mayTake,
  type Pace,
  type RoundTerms,
  roundTerms,
  taken,
} from '../islands/giving.ts';
import type { Islands, Train } from '../run/runFile.ts';

export interface Giving extends Recorded {
  /** Of checkpoints: the newest one, and those on their way. */
  readonly kept: readonly { readonly step: number; readonly free: Free; readonly round: number }[];
  /** Since when there is a group in this round that stands ready; null: there was none. */
  readonly startedAt: number | null;
  readonly terms: RoundTerms | null;
  /** Steps of the round that was met last; 0: there was none. */
  readonly before: number;
  /** By islands: the most steps in a millisecond that were seen in a round. */
  readonly most: readonly { readonly island: number; readonly steps: number }[];
}

export function beginGiving(
  { steps, islands }: Pick<Train, 'steps' | 'islands'>,
  { newestCheckpointStep: step, recorded }: Pick<StartState, 'newestCheckpointStep' | 'recorded'>,
): Giving | null {
  if (islands?.count !== 'auto') return null;
  const { free, round, nextIsland } = recorded ?? { free: allFree(steps), round: 0, nextIsland: 0 };
  return { free, round, nextIsland, kept: [{ step, free, round }], startedAt: null, terms: null, before: 0, most: [] };
}

/** What went on since a checkpoint never was: islands that begin there are new. */
export function goneBack(giving: Giving, step: number): Giving {
  const { free, round } = giving.kept.findLast((one) => one.step <= step) ?? at(giving.kept, 0);
  return { ...giving, free, round, kept: [{ step, free, round }], startedAt: null, terms: null, before: 0, most: [] };
}

/** Of this checkpoint, which is on its way, it is known from now on what is left to do. */
export const keptAt = (giving: Giving, step: number): Giving => ({
  ...giving,
  kept: [...giving.kept, { step, free: giving.free, round: giving.round }],
});

/** It is the newest one. */
export const keptFrom = (giving: Giving, step: number): Giving => ({
  ...giving,
  kept: giving.kept.filter((one) => one.step >= step),
});

export const newTurn = ({ round }: Giving): IslandTurn => ({ round, time: 0, numbers: [] });

export const islandOf = ({ config }: CoordinatorState): number => at(config.own ?? [], 0);
export const doneBy = ({ committedSteps, met }: CoordinatorState): number => committedSteps - met;

/** It has done what it was given, and would do more. */
export const isReady = (state: CoordinatorState): boolean =>
  state.phase.name === 'holding' &&
  state.phase.awaits === 'groups' &&
  state.isSavedFirst === false &&
  state.met < state.config.steps &&
  nextStepOf(state) === null;

function paceOf(state: CoordinatorState, { most }: Giving): Pace {
  // The first one may have waited for pipelines to be compiled: taken for its speed it would never be given another.
  const [, ...newest] = state.newestSteps;
  const seconds = totalOf(newest, (step) => step.seconds);
  const stepMs = newest.length === 0 ? null : (1000 * seconds) / newest.length;
  return { stepMs, most: most.find(({ island }) => island === islandOf(state))?.steps ?? null };
}

/** Who does which number next; null: nobody stands ready that may have one. */
export function nextGiven(
  before: Giving,
  groups: readonly CoordinatorState[],
  { steps, islands }: { readonly steps: number; readonly islands?: Islands },
  now: number,
): readonly [group: number, number: number, giving: Giving] | null {
  const ready = [...groups.keys()].filter((group) => isReady(at(groups, group)));
  const first = taken(before.free);
  if (ready.length === 0 || first === null || islands?.count !== 'auto') return null;
  const paces = groups.map((state) => paceOf(state, before));
  const terms = before.terms ?? roundTerms(islands, steps, paces, before.before);
  const startedAt = before.startedAt ?? now;
  const given = groups.map(({ turn }) => turn?.numbers.length ?? 0);
  const all = total(given);
  // Where a round has room for few, others come first in the next one.
  const inTurn = ready.toSorted((a, b) => ((a + before.round) % groups.length) - ((b + before.round) % groups.length));
  const found = inTurn.find((group) =>
    mayTake(terms, at(paces, group), { own: at(given, group), all }, now - startedAt),
  );
  // A round has a step, whoever does it.
  const isEmpty = all === 0 && ready.length === groups.length;
  const fastest = ready.reduce((one, other) =>
    (at(paces, other).stepMs ?? 0) < (at(paces, one).stepMs ?? 0) ? other : one,
  );
  const group = found ?? (isEmpty ? fastest : null);
  if (group === null) return null;
  const [number, free] = first;
  return [group, number, { ...before, free, terms, startedAt }];
}

/** All stand ready, and there is something to meet with. */
export const isRoundOver = (groups: readonly CoordinatorState[]): boolean =>
  groups.every(isReady) && groups.some((state) => doneBy(state) > 0);

/** How many steps each island did, by its number. */
export function recordedSteps(groups: readonly CoordinatorState[]): number[] {
  const steps = arrayOf(Math.max(...groups.map(islandOf)) + 1, () => 0);
  for (const state of groups) steps[islandOf(state)] = doneBy(state);
  return steps;
}

/** So many steps stand committed in all groups. */
export const recordedEnd = (groups: readonly CoordinatorState[]): number =>
  groups.reduce((sum, state) => sum + doneBy(state), at(groups, 0).met);

/** A round is met. */
export function afterRound(giving: Giving, groups: readonly CoordinatorState[]): Giving {
  const most = groups.map((state) => {
    const island = islandOf(state);
    const before = giving.most.find((one) => one.island === island)?.steps ?? 0;
    const { stepMs } = paceOf(state, giving);
    return { island, steps: Math.max(before, stepMs === null ? 0 : 1 / Math.max(1, stepMs)) };
  });
  return {
    ...giving,
    ...{ round: giving.round + 1, startedAt: null, terms: null },
    ...{ before: recordedEnd(groups) - at(groups, 0).met, most: most.filter(({ steps }) => steps > 0) },
  };
}

/** One has ended before the meeting: its numbers are nobody's. */
export const withoutIsland = (giving: Giving, numbers: readonly number[]): Giving => ({
  ...giving,
  free: givenBack(giving.free, numbers),
});

/** What a group begins the next round with. */
export const nextTurn = ({ round }: Giving, state: CoordinatorState): IslandTurn => ({
  round,
  time: (state.turn?.time ?? 0) + doneBy(state),
  numbers: [],
});

/** The run goes back to a checkpoint that was kept: what its record says is the newest. Island's numbers are not used again. */
export const sentTo = (giving: Giving, { free, round, nextIsland }: Recorded, step: number): Giving => ({
  ...giving,
  nextIsland: Math.max(giving.nextIsland, nextIsland),
  kept: [{ step, free, round }],
});
