/**
 * The search for the plan of the best predicted step time. Its one idea, Varuna's: whatever proposes a plan, the
 * simulator judges it. Groupings are ranked by a guess, the best ones improved by small moves as long as the guess falls
 * (peers change places or stages, stages change places, a layer moves on, more or fewer micro-batches, the other
 * schedule) and simulated, and the winners improved by the same moves, simulated where the guess promises something;
 * then again from somewhere near. Anytime: every better plan is yielded as it is found, so whoever asks may stop; the
 * same questions in the same order, whatever the machine.
 */
import { type PeerId, type Random, seededRandom } from '../base.ts';
import { type Plan, problems } from '../plan/plan.ts';
import type { Schedule } from '../schedule/action.ts';
import { build } from '../schedule/lower.ts';
import { annealed } from './anneal.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type Draft, memoryOf, planOf } from './draft.ts';
import { withEvenState } from './equalSplit.ts';
import { type Estimated, estimate } from './estimate.ts';
import { type Forecast, forecast, leastSeconds } from './forecast.ts';
import { equalSplits, polished, rankedStarts } from './guesses.ts';
import { moves, randomMove } from './moves.ts';
import { byUse, canonicalOrder } from './starts.ts';

/** Starts that are improved by guessing: the best, and the best of each number of stages. */
const POLISHED = 2;
/** A guess so many times the best one's is not followed for its number of stages alone. */
const HOPELESS = 3;
/** Moves that are guessed at for one start. */
const MOST_GUESSED = 600;
/** Candidates that are simulated before the small moves begin, at least one of each number of stages. */
const FIRST_SIMULATED = 16;
/** A move whose guess is worse than this many times the guess at where it starts is not simulated. */
const PROMISING = 1.4;
/** Times that the search begins again, near the best, without finding a better one. */
const FRUITLESS_KICKS = 60;
const KICK_MOVES = 3;
/** What takes longer than so many times the best is not improved further. */
const NEAR = 1.3;
/** Up to so many peers the small moves find all there is; more are annealed too. */
const FEW_PEERS = 8;
/** Guesses of each time, numbers of stages that it begins with, and times without finding a better one before other starts are looked at. */
const COOLING_TRIES = 2_000;
const COOLED_ROOTS = 3;
const FRUITLESS_COOLINGS = 4;
/** Of what comes out, those simulated, and how near the best of them, and the best of all. */
const MOST_COOLED = 4;
const COOLED_NEAR = 1.15;
/** A gain less than this part is none: sums in another order differ. */
const GAIN = 1e-9;
/** A guess takes as long as so many simulated actions. */
const GUESS_WORK = 10;
/** Guesses that seem not to fit are judged before it is said that nothing does. */
const MOST_UNLIKELY = 200;
/** And so many are guessed at again with the help of those who are idle. */
const MOST_HELPED = 600;

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
interface Nearest {
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
  const consider = (plan: Plan, draft: Draft, schedule: Schedule): Candidate | null => {
    work += 100 + 2 * plan.stages.length * plan.microBatches.length;
    const memory = memoryOf(costs, plan, schedule);
    const missing = shortOf(costs, memory);
    if (missing > 0) return lacking(missing, draft);
    const predicted = forecast(costs, plan, schedule);
    const known = byStages.get(plan.stages.length) ?? Number.POSITIVE_INFINITY;
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
      found =
        drafted.missingBytes > 0
          ? lacking(drafted.missingBytes, draft)
          : consider(drafted.plan, draft, drafted.schedule);
    judged.set(key, found);
    return found;
  };
  const adopt = (candidate: Candidate | null): Progress => {
    if (candidate !== null && isBetter(candidate, best)) best = candidate;
    return { best, work };
  };

  // From what is quickly worked out to what takes long; its memory takes longest.
  const isPromising = (plan: Plan, seconds: (costs: ClusterCosts, plan: Plan) => number): boolean =>
    best === null || seconds(costs, plan) < best.forecast.stepSeconds;
  const stepSeconds = (of: ClusterCosts, plan: Plan): number => forecast(of, plan).stepSeconds;
  const isSound = (plan: Plan): boolean => problems(costs.model, costs.batch, plan).length === 0;

  function* progress(): Generator<Progress, void> {
    const ranking = rankedStarts(costs);
    let ranked = ranking.next();
    for (; !ranked.done; ranked = ranking.next()) yield { best, work };
    const guesses = ranked.value;
    for (const { draft, missingBytes } of guesses) if (missingBytes > 0) lacking(missingBytes, draft);
    const fitting = guesses.filter(({ missingBytes }) => missingBytes === 0);
    const [first] = fitting;
    if (first) adopt(judge(first.draft));
    // Before anybody can stop the search.
    for (const [work, draft] of equalSplits(costs)) {
      if (!isPromising(work, leastSeconds)) continue;
      const plan = withEvenState(costs.model, work);
      if (isPromising(plan, leastSeconds) && isPromising(plan, stepSeconds) && isSound(plan))
        adopt(consider(plan, draft, build(plan)));
    }
    yield { best, work };
    const roots: Candidate[] = [];
    for (const isPolished of [true, false])
      for (const start of leading(fitting, isPolished ? POLISHED : FIRST_SIMULATED)) {
        const candidate = judge((isPolished ? polish(start) : start).draft);
        if (candidate !== null) roots.push(candidate);
        yield adopt(candidate);
      }
    // Where the guesses promised too much, the next ones in line.
    for (const { draft } of guesses.slice(0, MOST_UNLIKELY)) {
      if (best !== null) break;
      yield adopt(judge(draft));
    }
    // What has no room for its state alone may have it with the help of those who are idle.
    if (costs.keepers)
      for (const { draft } of guesses.slice(0, MOST_UNLIKELY)) {
        if (best !== null) break;
        yield adopt(judge({ ...draft, keepers: idleOf(costs, draft) }));
      }
    if (best === null) return;
    const random = seededRandom(1);
    const isMany = costs.peers.length > FEW_PEERS;
    if (isMany) for (const root of distinctStages([best, ...roots]).slice(0, COOLED_ROOTS)) yield* cool(root, random);
    if (isMany)
      for (let fruitless = 0; fruitless < FRUITLESS_COOLINGS; fruitless++) {
        const before: Candidate = best;
        yield* cool(best, random);
        if (isBetter(best, before)) fruitless = -1;
      }
    for (const root of distinctStages([best, ...roots])) yield* climb(root);
    const others = [...distinctGroups(fitting), ...helped(costs, guesses)].sort(bySeconds);
    for (let fruitless = 0, next = 0; fruitless < FRUITLESS_KICKS || next < others.length; fruitless++, next++) {
      const before: Candidate = best;
      const other = others[next] ?? null;
      // A guess with keepers is rough, and moves that follow it lead astray: it is judged where it stands.
      const asIs = other?.draft.keepers ? other : other && polish(other);
      if (isMany) yield* cool(best, random);
      const near = isMany ? null : kicked(costs, best, random);
      for (const from of [asIs, near && polish(near)]) {
        const candidate = from && judge(from.draft);
        const isNear = candidate !== null && candidate.forecast.stepSeconds < NEAR * best.forecast.stepSeconds;
        if (isNear) yield* climb(candidate);
        else yield adopt(candidate);
      }
      if (isBetter(best, before)) fruitless = 0;
    }
  }

  const polish = (start: Estimated): Estimated => {
    const found = polished(costs, start, MOST_GUESSED);
    work += GUESS_WORK * found.tried;
    return found;
  };

  /** Far from there by guessing alone; what comes near the best is gone on with. */
  function* cool(from: Candidate, random: Random): Generator<Progress, void> {
    const { groups, microBatches, schedule, layers } = from.draft;
    const start = estimate(costs, groups, microBatches, schedule, layers);
    if (start === null || start.missingBytes > 0) return;
    const useful = byUse(costs, canonicalOrder(costs), groups.length + 1);
    const cooling = annealed(costs, start, useful, COOLING_TRIES, random);
    let step = cooling.next();
    for (; !step.done; step = cooling.next()) {
      work += GUESS_WORK * step.value;
      yield { best, work };
    }
    const least = step.value[0]?.seconds ?? 0;
    for (const { draft, seconds } of step.value.slice(0, MOST_COOLED)) {
      if (seconds > COOLED_NEAR * least) break;
      const candidate = judge(draft);
      const isNear =
        candidate !== null && best !== null && candidate.forecast.stepSeconds < COOLED_NEAR * best.forecast.stepSeconds;
      if (isNear) yield* climb(candidate);
      else yield adopt(candidate);
    }
  }

  /** Moves that help, the first one found at once, until there is none. */
  function* climb(from: Candidate): Generator<Progress, void> {
    let here = from;
    yield adopt(here);
    for (let isMoving = true; isMoving; ) {
      isMoving = false;
      const { groups, microBatches, schedule, layers, keepers } = here.draft;
      const guess =
        estimate(costs, groups, microBatches, schedule, layers, keepers)?.seconds ?? Number.POSITIVE_INFINITY;
      for (const { draft, seconds } of moves(costs, here.draft)) {
        work += GUESS_WORK;
        if (seconds > PROMISING * guess) {
          yield { best, work };
          continue;
        }
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

/** The best guesses, and the best one of each number of stages that is not hopeless. */
function leading(fitting: readonly Estimated[], most: number): Estimated[] {
  const seen = new Set<number>();
  const least = fitting[0]?.seconds ?? 0;
  const ofEach = fitting.filter(({ draft, seconds }) => {
    const isNew = !seen.has(draft.groups.length) && seconds <= HOPELESS * least;
    seen.add(draft.groups.length);
    return isNew;
  });
  return [...new Set([...fitting.slice(0, most), ...ofEach])];
}

const bySeconds = (a: Estimated, b: Estimated): number => a.seconds - b.seconds;

/** Each grouping once, in its best size. */
function distinctGroups(guesses: readonly Estimated[]): Estimated[] {
  const seen = new Set<Draft['groups']>();
  return guesses.filter(({ draft }) => seen.size < seen.add(draft.groups).size);
}

const idleOf = ({ peers }: ClusterCosts, { groups }: Draft): number[] =>
  [...peers.keys()].filter((place) => !groups.some((group) => group.includes(place)));

/** Of what has no room for its state, those that have it with the help of all who are idle. */
function helped(costs: ClusterCosts, guesses: readonly Estimated[]): Estimated[] {
  if (!costs.keepers) return [];
  const found = guesses
    .filter(({ missingBytes }) => missingBytes > 0)
    .slice(0, MOST_HELPED)
    .flatMap(({ draft }) => {
      const { groups, microBatches, schedule } = draft;
      return estimate(costs, groups, microBatches, schedule, undefined, idleOf(costs, draft)) ?? [];
    });
  return distinctGroups(found.filter(({ missingBytes }) => missingBytes === 0).sort(bySeconds));
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

/** A few random moves away. */
function kicked(costs: ClusterCosts, from: Candidate, random: Random): Estimated | null {
  let [draft, last]: [Draft, Estimated | null] = [from.draft, null];
  for (let step = 0; step < KICK_MOVES; step++) {
    last = randomMove(costs, draft, random) ?? last;
    draft = last?.draft ?? draft;
  }
  return last;
}
