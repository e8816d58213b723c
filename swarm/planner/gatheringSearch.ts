/**
 * Plans whose stages gather their layers (gathering.ts), looked for beside all others. Its one idea: they are worth a look
 * only inside groups whose links are fast, so it begins with those, the regions of the tree that are fast as a whole: each
 * alone as one stage or a few, and all of them in a row; and with the stages of the best plan so far, as they are and joined
 * where neighbours are near. Guesses decide what is judged, and a few moves follow from the best.
 */
import { SCHEDULE_NAMES } from '../schedule/action.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { Draft } from './draft.ts';
import { type Estimated, estimate } from './estimate.ts';
import { isFast } from './gathering.ts';
import { balanced, distances, type Groups, pathOrder, regionsOf, regionTree } from './grouping.ts';
import { microBatchCounts } from './guesses.ts';
import { groupMoves } from './moves.ts';
import { type Candidate, isBetter, type Search } from './search.ts';
import { byMemory, canonicalOrder } from './starts.ts';

/** Fast groups are looked for among so many of the fastest peers. */
const MOST_PEERS = 64;
/** Of one region as so many stages. */
const STAGES_INSIDE = [1, 2, 3, 4];
/** Guesses that are judged, where there is a plan without; and where there is none. */
const [MOST_JUDGED, MOST_JUDGED_ALONE] = [6, 60];
/** A guess so many times as long as the best plan is not judged. */
const PROMISING = 1.25;
/** Moves that are guessed at. */
const MOST_MOVES = 400;

type Whole = NonNullable<Draft['gathered']>[number];

/** The best of them, if there is one; null is yielded before it. Better than `best` or not. */
export function* gatheringPlans({ costs, judge }: Search, best: Candidate | null): Generator<Candidate | null> {
  // What fits without is done without.
  const needed: Search['judge'] = ({ gathered = [], ...draft }) => {
    const candidate = judge({ ...draft, gathered });
    return candidate !== null && judge(draft) === null ? candidate : null;
  };
  const most = best === null ? Number.POSITIVE_INFINITY : PROMISING * best.forecast.stepSeconds;
  const guesses: Estimated[] = [];
  for (const groups of groupingsOf(costs, best)) {
    guesses.push(...guessesAt(costs, groups));
    yield null;
  }
  guesses.sort((a, b) => a.seconds - b.seconds || a.missingBytes - b.missingBytes);
  let found: Candidate | null = null;
  for (const { draft, seconds } of guesses.slice(0, best === null ? MOST_JUDGED_ALONE : MOST_JUDGED)) {
    if (seconds > most && best !== null) break;
    const candidate = needed(draft);
    if (candidate !== null && isBetter(candidate, found)) found = candidate;
    yield found;
  }
  if (found !== null) yield* climb(costs, needed, found);
}

/** Moves that help, the first one found at once. */
function* climb(costs: ClusterCosts, judge: Search['judge'], from: Candidate): Generator<Candidate> {
  let here = from;
  let tried = 0;
  for (let isMoving = true; isMoving && tried < MOST_MOVES; ) {
    isMoving = false;
    const guess = guessAt(costs, here.draft)?.seconds ?? Number.POSITIVE_INFINITY;
    for (const next of moves(costs, here.draft)) {
      if (tried++ >= MOST_MOVES) return;
      const isPromising = next.missingBytes === 0 && next.seconds <= PROMISING * guess;
      const candidate = isPromising ? judge(next.draft) : null;
      isMoving = candidate !== null && isBetter(candidate, here);
      if (isMoving && candidate !== null) here = candidate;
      yield here;
      if (isMoving) break;
    }
  }
}

function* moves(costs: ClusterCosts, draft: Draft): Generator<Estimated> {
  const { groups, gathered = [] } = draft;
  const settled = function* (other: Draft): Generator<Estimated> {
    const found = guessAt(costs, other);
    if (found !== null) yield found;
  };
  for (const stage of groups.keys())
    for (const whole of [0, 1, 2] as const)
      if (whole !== (gathered[stage] ?? 0) && (whole === 0 || (groups[stage] ?? []).length > 1))
        yield* settled({ ...draft, gathered: groups.map((_, at) => (at === stage ? whole : (gathered[at] ?? 0))) });
  for (const microBatches of microBatchCounts(costs, groups)) yield* settled({ ...draft, microBatches });
  for (const schedule of SCHEDULE_NAMES) if (schedule !== draft.schedule) yield* settled({ ...draft, schedule });
  for (const moved of groupMoves(costs, groups)) {
    const lanes = moved.reduce((most, group) => Math.max(most, group.length), 0);
    const isSized = draft.microBatches === 'sized' && moved.length === 1;
    const count = draft.microBatches === 'sized' ? costs.batch.samples : draft.microBatches;
    if (lanes > count) continue;
    const whole = gatheredAlike(costs, moved, isSized ? 1 : Math.ceil(costs.batch.samples / count), 2);
    const next = estimate(costs, moved, isSized ? 'sized' : count, draft.schedule, undefined, [], whole);
    if (next !== null) yield next;
  }
}

const guessAt = (costs: ClusterCosts, { groups, microBatches, schedule, layers, gathered }: Draft): Estimated | null =>
  estimate(costs, groups, microBatches, schedule, layers, [], gathered);

/** Every stage of several peers whose links are fast. */
const gatheredAlike = (costs: ClusterCosts, groups: Groups, samples: number, whole: Whole): Whole[] =>
  groups.map((group) => (isFast(costs, group, samples) ? whole : 0));

function guessesAt(costs: ClusterCosts, groups: Groups): Estimated[] {
  return microBatchCounts(costs, groups).flatMap((count) => {
    const lanes = Math.max(...groups.map((group) => group.length));
    const samples = Math.ceil(costs.batch.samples / (count === 'sized' ? lanes : count));
    return ([2, 1] as const).flatMap((whole) => {
      const gathered = gatheredAlike(costs, groups, samples, whole);
      if (!gathered.some((own) => own > 0)) return [];
      return SCHEDULE_NAMES.flatMap((schedule) =>
        count === 'sized' && schedule === 'gpipe'
          ? []
          : (estimate(costs, groups, count, schedule, undefined, [], gathered) ?? []),
      );
    });
  });
}

function groupingsOf(costs: ClusterCosts, best: Candidate | null): Groups[] {
  const { model, batch } = costs;
  const places = canonicalOrder(costs).slice(0, MOST_PEERS);
  const layerBytes = 4 * (model.blocks.find(({ name }) => name === 'layer.0')?.elements ?? 1);
  const table = distances(costs, places, layerBytes);
  const regions = fastRegions(costs, places, table);
  const found: Groups[] = [];
  for (const region of regions.filter((group) => group.length > 1))
    for (const some of [...beginnings(region), ...beginnings(byMemory(costs, region))])
      for (const stages of STAGES_INSIDE)
        if (2 * stages <= some.length || stages === 1)
          found.push(balanced(some, (place) => costs.speeds[place] ?? 0, stages));
  const index = new Map(places.map((place, at) => [place, at]));
  const inARow = (groups: readonly number[][]): Groups =>
    pathOrder(
      groups.map((group) => group.map((place) => index.get(place) ?? 0)),
      table,
      places.length,
    ).map((group) => group.map((at) => places[at] ?? 0));
  for (let count = 2; count <= Math.min(regions.length, model.layers, 8); count++)
    found.push(inARow(regions.slice(0, count)));
  if (best !== null) found.push(best.draft.groups, joined(best.draft.groups, regions));
  const distinct = new Map(found.map((groups) => [JSON.stringify(groups), groups]));
  return [...distinct.values()].filter(
    (groups) =>
      groups.length <= model.layers &&
      groups.every((group) => group.length <= batch.samples) &&
      groups.some((group) => group.length > 1),
  );
}

/** The largest clusters of the tree that are fast as a whole with all samples at once, and who is left, the fastest first. */
function fastRegions(costs: ClusterCosts, places: readonly number[], table: Float64Array): number[][] {
  const tree = regionTree(table, places.length);
  const found: number[][] = [];
  const settled = new Set<number>();
  for (let count = 1; count <= places.length && settled.size < places.length; count++)
    for (const cluster of regionsOf(tree, count)) {
      const group = cluster.map((at) => places[at] ?? 0);
      if (group.some((place) => settled.has(place))) continue;
      if (group.length > 1 && !isFast(costs, group, costs.batch.samples)) continue;
      found.push(group);
      for (const place of group) settled.add(place);
    }
  const speed = (group: readonly number[]): number => group.reduce((sum, place) => sum + (costs.speeds[place] ?? 0), 0);
  return found.sort((a, b) => speed(b) - speed(a));
}

/** Neighbouring stages of one region are one. */
function joined(groups: Groups, regions: readonly number[][]): Groups {
  const regionOf = new Map(regions.flatMap((region, at) => region.map((place) => [place, at])));
  const found: number[][] = [];
  let last: number | undefined;
  for (const group of groups) {
    const [region, ...others] = new Set(group.map((place) => regionOf.get(place)));
    const own = others.length === 0 ? region : undefined;
    const before = found.at(-1);
    if (before && own !== undefined && own === last) before.push(...group);
    else found.push([...group]);
    last = own;
  }
  return found;
}

/** The first two, three, four, six, nine, … and all of them. */
function beginnings(group: readonly number[]): number[][] {
  const found: number[][] = [];
  for (let count = 2; count < group.length; count = count < 4 ? count + 1 : Math.ceil(1.5 * count))
    found.push(group.slice(0, count));
  return [...found, [...group]];
}
