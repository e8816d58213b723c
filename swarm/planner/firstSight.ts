/**
 * A plan at first sight, for whoever has no time to search: a few dozen drafts of the fastest peers and of those with most
 * memory, one a stage or shared out over a few, guessed at, and the best one that holds. Its one idea: memory is used up
 * best by stages of one peer, small micro-batches and 1F1B, so what has a plan at all mostly has one of these.
 */
import { SCHEDULE_NAMES } from '../schedule/action.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { type Estimated, estimate } from './estimate.ts';
import { balanced, type Groups } from './grouping.ts';
import type { Candidate, Search } from './search.ts';
import { byMemory, canonicalOrder } from './starts.ts';

/** Stages that are tried; and as many as there can be, up to the last of these. */
const STAGE_COUNTS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32];
const MOST_STAGES = 64;
/** More peers a group than these are slow to guess at. */
const MOST_SHARED_OUT = 64;
/** Guesses that are judged: those that fit, and those that lack least. */
const MOST_JUDGED = 12;

/** Peers who share the ends of a row, where one alone has no room for a large vocabulary. */
const AT_ENDS = [2, 4, 8];

/** Null where none of these fits, though another plan may. */
export const planAtSight = (search: Search): Candidate | null =>
  bestOf(search, groupingsOf(search.costs)) ?? bestOf(search, thickEnds(search.costs));

function bestOf({ costs, judge }: Search, groupings: readonly Groups[]): Candidate | null {
  const guesses = groupings.flatMap((groups) => guessesAt(costs, groups));
  guesses.sort((a, b) => a.seconds - b.seconds || a.missingBytes - b.missingBytes);
  for (const { draft } of guesses.slice(0, MOST_JUDGED)) {
    const candidate = judge(draft);
    if (candidate !== null) return candidate;
  }
  return null;
}

function groupingsOf(costs: ClusterCosts): Groups[] {
  const fastest = canonicalOrder(costs);
  const roomiest = byMemory(costs, fastest);
  const sharedOut = fastest.slice(0, Math.min(MOST_SHARED_OUT, costs.batch.samples));
  const speedOf = (place: number): number => costs.speeds[place] ?? 0;
  return stageCounts(costs).flatMap((count) => [
    inARow(fastest.slice(0, count)),
    inARow(roomiest.slice(0, count)),
    ...(sharedOut.length > count ? [balanced(sharedOut, speedOf, count)] : []),
  ]);
}

function thickEnds(costs: ClusterCosts): Groups[] {
  const roomiest = byMemory(costs, canonicalOrder(costs));
  const lanes = AT_ENDS.filter((count) => count <= costs.batch.samples);
  return stageCounts(costs).flatMap((count) =>
    lanes.flatMap((thick) => {
      const taken = count === 1 ? thick : 2 * thick + count - 2;
      if (taken > roomiest.length) return [];
      const ends = [roomiest.slice(0, thick), ...(count === 1 ? [] : [roomiest.slice(thick, 2 * thick)])];
      return [[ends[0] ?? [], ...roomiest.slice(ends.flat().length, taken).map((place) => [place]), ...ends.slice(1)]];
    }),
  );
}

function stageCounts({ model, peers }: ClusterCosts): number[] {
  const most = Math.min(model.layers, peers.length, MOST_STAGES);
  return [...STAGE_COUNTS.filter((count) => count < most), most];
}

/** The first two at the ends, where the embedding and the head are. */
const inARow = ([first = 0, second, ...others]: readonly number[]): Groups =>
  [first, ...others, ...(second === undefined ? [] : [second])].map((place) => [place]);

function guessesAt(costs: ClusterCosts, groups: Groups): Estimated[] {
  const { samples } = costs.batch;
  const lanes = Math.max(...groups.map((group) => group.length));
  if (lanes > samples) return [];
  const few = Math.min(samples, Math.max(lanes, 4 * groups.length));
  return [...new Set([few, samples])].flatMap((count) =>
    SCHEDULE_NAMES.flatMap((schedule) => estimate(costs, groups, count, schedule) ?? []),
  );
}
