/**
 * The search for a plan as a server can afford it: for a short while at once, or for longer in slices between which
 * everything else goes on.
 */
import { type Result, refusal, success } from '../swarm/base.ts';
import type { ClusterProblem } from '../swarm/planner/clusterCosts.ts';
import { answer, type ClusterPlan, shortage } from '../swarm/planner/clusterPlan.ts';
import { type Candidate, searchPlan } from '../swarm/planner/search.ts';

/** Where a plan is needed at once: at least until there is one. */
const AT_ONCE_MS = 120;
/** In all, and at a time. */
const IN_SLICES_MS = 800;
const SLICE_MS = 10;
/** About so many simulated actions find no better plan for a handful of donors. */
const MOST_WORK = 400_000;

/** Milliseconds that only go forward. */
export type Stopwatch = () => number;

export function planAtOnce(problem: ClusterProblem, now: Stopwatch): Result<ClusterPlan> {
  const search = searchPlan(problem);
  const end = now() + AT_ONCE_MS;
  let best: Candidate | null = null;
  for (const progress of search.progress) {
    best = progress.best;
    if (best !== null && (now() >= end || progress.work > MOST_WORK)) break;
  }
  return best === null ? refusal(shortage(search)) : success(answer(search, best));
}

/** `rest` resolves when everything that was waiting has had its turn. */
export async function planInSlices(
  problem: ClusterProblem,
  now: Stopwatch,
  rest: () => Promise<void>,
): Promise<Result<ClusterPlan>> {
  const search = searchPlan(problem);
  let spent = 0;
  let begun = now();
  let best: Candidate | null = null;
  for (const progress of search.progress) {
    best = progress.best;
    const slice = now() - begun;
    if (best !== null && (spent + slice >= IN_SLICES_MS || progress.work > MOST_WORK)) break;
    if (slice < SLICE_MS) continue;
    spent += slice;
    await rest();
    begun = now();
  }
  return best === null ? refusal(shortage(search)) : success(answer(search, best));
}
