/**
 * The search for the plan of the best predicted step time. Its one idea, Varuna's: whatever proposes a plan, the
 * simulator judges it. Groupings are ranked by a guess, the best ones simulated, and the winners improved by small moves
 * (peers change places or stages, stages change places, a layer moves on, more or fewer micro-batches, the other
 * schedule) until none helps; then again from somewhere near. Anytime: every better plan is yielded as it is found, so
 * whoever asks may stop; the same questions in the same order, whatever the machine.
 */
import { type PeerId, type Random, seededRandom } from '../base.ts';
import { type Plan, problems } from '../plan.ts';
import { SCHEDULE_NAMES, type ScheduleName } from '../schedule/action.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type Draft, memoryOf, planOf } from './draft.ts';
import { equalSplit, splitProblem } from './equalSplit.ts';
import { type Estimated, estimate } from './estimate.ts';
import { type Forecast, forecast } from './forecast.ts';
import type { Groups } from './grouping.ts';
import { moves } from './moves.ts';
import { canonicalOrder, starts } from './starts.ts';

/** Stages of micro-batches that a candidate may have at most: larger ones only cost time to judge. */
const MOST_WORK = 8_192;
/** Candidates that are simulated before the small moves begin, at least one of each number of stages. */
const FIRST_SIMULATED = 16;
/** Times that the search begins again, near the best, without finding a better one. */
const FRUITLESS_KICKS = 60;
const KICK_MOVES = 3;
/** A gain less than this part is none: sums in another order differ. */
const GAIN = 1e-9;

export interface Candidate {
  readonly plan: Plan;
  readonly draft: Draft;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
}

/** What one step of the search came to: a better plan, or none; `work` counts actions simulated so far. */
export interface Progress {
  readonly best: Candidate | null;
  readonly work: number;
}

/** The nearest to a plan that fits, where none does. */
export interface Nearest {
  readonly missingBytes: number;
  readonly draft: Draft | null;
}

export interface Search {
  readonly costs: ClusterCosts;
  /** Step seconds of the best plan found with each number of stages. */
  readonly byStages: Map<number, number>;
  readonly nearest: () => Nearest;
  readonly judge: (draft: Draft) => Candidate | null;
  readonly progress: Generator<Progress, void>;
}

export function searchPlan(problem: ClusterProblem): Search {
  const costs = clusterCosts(problem);
  const byStages = new Map<number, number>();
  const judged = new Map<string, Candidate | null>();
  let nearest: Nearest = { missingBytes: Number.POSITIVE_INFINITY, draft: null };
  let best: Candidate | null = null;
  let work = 0;

  const lacking = (missingBytes: number, draft: Draft): null => {
    if (missingBytes < nearest.missingBytes) nearest = { missingBytes, draft };
    return null;
  };
  const consider = (plan: Plan, draft: Draft): Candidate | null => {
    work += 100 + 2 * plan.stages.length * plan.microBatches.length;
    const predicted = forecast(costs, plan);
    const known = byStages.get(plan.stages.length) ?? Number.POSITIVE_INFINITY;
    // Exact memory only where it decides: it takes longer than the forecast.
    const memory = memoryOf(costs, plan);
    const missing = shortOf(costs, memory);
    if (missing > 0) return lacking(missing, draft);
    byStages.set(plan.stages.length, Math.min(known, predicted.stepSeconds));
    return { plan, draft, forecast: predicted, memory };
  };
  const judge = (draft: Draft): Candidate | null => {
    const key = JSON.stringify(draft);
    const known = judged.get(key);
    if (known !== undefined) return known;
    work += 50;
    const drafted = planOf(costs, draft);
    let found: Candidate | null = null;
    if (drafted !== null)
      found = drafted.missingBytes > 0 ? lacking(drafted.missingBytes, draft) : consider(drafted.plan, draft);
    judged.set(key, found);
    return found;
  };
  const adopt = (candidate: Candidate | null): Progress => {
    if (candidate !== null && isBetter(candidate, best)) best = candidate;
    return { best, work };
  };

  function* progress(): Generator<Progress, void> {
    const ranked = rankedStarts(costs);
    for (const { draft, missingBytes } of ranked) if (missingBytes > 0) lacking(missingBytes, draft);
    const roots: Candidate[] = [];
    // Before anybody can stop the search.
    for (const [plan, draft] of equalSplits(costs)) adopt(consider(plan, draft));
    for (const { draft } of firstOf(ranked)) {
      const candidate = judge(draft);
      if (candidate !== null) roots.push(candidate);
      yield adopt(candidate);
    }

    // Where the guesses promised too much, the next ones in line.
    for (const { draft } of ranked) {
      if (best !== null) break;
      yield adopt(judge(draft));
    }
    if (best === null) return;
    for (const root of distinctStages([best, ...roots])) yield* climb(root);
    const random = seededRandom(1);
    for (let fruitless = 0; fruitless < FRUITLESS_KICKS; fruitless++) {
      const before: Candidate = best;
      const from = kicked(costs, before, judge, random);
      if (from !== null) yield* climb(from);
      else yield { best, work };
      if (isBetter(best, before)) fruitless = 0;
    }
  }

  /** Moves that help, the first one found at once, until there is none. */
  function* climb(from: Candidate): Generator<Progress, void> {
    let here = from;
    yield adopt(here);
    for (let isMoving = true; isMoving; ) {
      isMoving = false;
      for (const draft of moves(costs, here.draft)) {
        const next = judge(draft);
        yield adopt(next);
        if (next === null || !isBetter(next, here)) continue;
        here = next;
        isMoving = true;
        break;
      }
    }
  }

  return { costs, byStages, nearest: () => nearest, judge, progress: progress() };
}

export const isBetter = (one: Candidate, other: Candidate | null): boolean =>
  other === null || one.forecast.stepSeconds < other.forecast.stepSeconds * (1 - GAIN);

function shortOf(costs: ClusterCosts, memory: ReadonlyMap<PeerId, number>): number {
  return costs.peers.reduce((sum, { id, memoryBytes }) => sum + Math.max(0, (memory.get(id) ?? 0) - memoryBytes), 0);
}

/** Sizes to try: from one for each stage and lane, doubled up to a sample each. */
export function microBatchCounts(costs: ClusterCosts, groups: Groups): (number | 'sized')[] {
  const { samples } = costs.batch;
  const lanes = Math.max(...groups.map((group) => group.length));
  const most = Math.min(samples, Math.max(lanes, Math.floor(MOST_WORK / groups.length)));
  const counts: (number | 'sized')[] = groups.length === 1 && lanes > 1 ? ['sized'] : [];
  if (lanes > most) return counts;
  for (let count = Math.min(most, Math.max(lanes, groups.length)); count < most; count *= 2) counts.push(count);
  return [...counts, most];
}

/** Every start with its best guesses, those that fit first. */
function rankedStarts(costs: ClusterCosts): Estimated[] {
  const found: Estimated[] = [];
  for (const groups of starts(costs))
    for (const count of microBatchCounts(costs, groups))
      for (const schedule of SCHEDULE_NAMES) {
        // Cephalo's sizes are for one micro-batch in flight.
        if (count === 'sized' && schedule === 'gpipe') continue;
        const guess = estimate(costs, groups, count, schedule);
        if (guess !== null) found.push(guess);
      }
  return found.sort((a, b) => a.seconds - b.seconds || a.missingBytes - b.missingBytes);
}

/** The best guesses, and the best one of each number of stages. */
function firstOf(ranked: readonly Estimated[]): Estimated[] {
  const fitting = ranked.filter(({ missingBytes }) => missingBytes === 0);
  const seen = new Set<number>();
  const ofEach = fitting.filter(({ draft }) => {
    const isNew = !seen.has(draft.groups.length);
    seen.add(draft.groups.length);
    return isNew;
  });
  return [...new Set([...fitting.slice(0, FIRST_SIMULATED), ...ofEach])];
}

/** The best candidate of each number of stages, the fastest first. */
function distinctStages(candidates: readonly Candidate[]): Candidate[] {
  const best = new Map<number, Candidate>();
  for (const candidate of candidates) {
    const stages = candidate.plan.stages.length;
    if (isBetter(candidate, best.get(stages) ?? null)) best.set(stages, candidate);
  }
  return [...best.values()].sort((a, b) => a.forecast.stepSeconds - b.forecast.stepSeconds);
}

/** The plans that take everyone for equals: the search never answers with less. */
function equalSplits(costs: ClusterCosts): [Plan, Draft][] {
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
        const plan = equalSplit(model, batch.samples, ids, options);
        if (plan.stages.length * plan.microBatches.length > MOST_WORK) continue;
        const groups = plan.stages.map(({ members }) => members.map(({ peer }) => place.get(peer) ?? 0));
        const layers = plan.stages.map(({ layers: [from, to] }) => to - from);
        const draft: Draft = { groups, layers, microBatches: plan.microBatches.length, schedule };
        found.set(JSON.stringify(draft), [plan, draft]);
      }
    }
  }
  return [...found.values()].filter(([plan]) => problems(model, batch, plan).length === 0);
}

/** A few random moves away. */
function kicked(
  costs: ClusterCosts,
  from: Candidate,
  judge: (draft: Draft) => Candidate | null,
  random: Random,
): Candidate | null {
  let here = from;
  for (let step = 0; step < KICK_MOVES; step++) {
    const all = [...moves(costs, here.draft)];
    const draft = all[Math.floor(random() * all.length)];
    if (!draft) return null;
    here = judge(draft) ?? here;
  }
  return here === from ? null : here;
}
