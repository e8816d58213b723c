/**
 * The search for a plan as a server can afford it: for a short while at once, or for longer in slices between which
 * everything else goes on. It ends early when nothing better has come for long: a handful of donors is soon searched.
 */
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { answer, type ClusterPlan, shortage } from '../../swarm/planner/clusterPlan.ts';
import { type Candidate, type Progress, type Search, searchPlan } from '../../swarm/planner/search.ts';

/**
 * Work is the number of drafts that were judged; a tenth of a second where the machine is free has about a thousand.
 * Where a plan is needed at once: until so much was tried, or so long. What lies between two looks at the clock comes on
 * top of that: some tens of milliseconds, some hundreds on a busy machine.
 */
const AT_ONCE_WORK = 1_200;
const AT_ONCE_MS = 500;
/** With more donors it is looked for among the fastest first: nobody is answered meanwhile. */
const AT_ONCE_PEERS = 24;
/** In all (on a busy machine until so much was tried), and at a time. */
const IN_SLICES_MS = 800;
const IN_SLICES_WORK = 3_000;
const IN_SLICES_MOST_MS = 3_000;
const SLICE_MS = 10;
/** So much is tried in slices at least, and so many times the work that the best plan took: then nothing better comes. */
const LEAST_WORK = 8_000;
const FRUITLESS = 5;

/** Milliseconds that only go forward. */
type Stopwatch = () => number;

const NOTHING_YET: Result<ClusterPlan> = refusal('there is no plan yet');

/** The best plan so far, and whether it is worth looking on. */
class Outcome {
  readonly #problem: ClusterProblem;
  readonly #search: Search;
  #best: Candidate | null = null;
  #foundAt = 0;

  constructor(problem: ClusterProblem, search: Search) {
    this.#problem = problem;
    this.#search = search;
  }

  /** Whether this is enough: there is a plan, and time or patience are over. */
  take({ best, work }: Progress, isLate: boolean): boolean {
    if (best !== this.#best) this.#foundAt = work;
    this.#best = best;
    return best !== null && (isLate || work > Math.max(LEAST_WORK, FRUITLESS * this.#foundAt));
  }

  get isFound(): boolean {
    return this.#best !== null;
  }

  /** A refusal is said again, more at length, as long as it is listened to. */
  *results(): Generator<Result<ClusterPlan>, void> {
    if (this.#best !== null) yield success(answer(this.#search, this.#best));
    else for (const reason of shortage(this.#problem, this.#search)) yield refusal(reason);
  }
}

/**
 * Where there is no plan yet it is looked for to the end of the search, however late: a refusal stops a run.
 */
export function planAtOnce(problem: ClusterProblem, now: Stopwatch): Result<ClusterPlan> {
  const begun = now();
  const isOver = (): boolean => now() - begun >= AT_ONCE_MS;
  const isLate = ({ work }: Progress): boolean => work >= AT_ONCE_WORK || isOver();
  const few = fastest(problem);
  const found = few === problem ? null : searchAtOnce(few, isLate);
  const outcome = found?.isFound ? found : searchAtOnce(problem, isLate);
  let result = NOTHING_YET;
  for (result of outcome.results()) if (isOver()) break;
  return result;
}

function fastest(problem: ClusterProblem): ClusterProblem {
  const { peers } = problem.cluster;
  if (peers.length <= AT_ONCE_PEERS) return problem;
  const seconds = ({ measured }: (typeof peers)[number]): number =>
    (measured?.forwardSecondsPerLayer[0] ?? 0) + (measured?.backwardSecondsPerLayer[0] ?? 0);
  const chosen = peers.toSorted((a, b) => seconds(a) - seconds(b)).slice(0, AT_ONCE_PEERS);
  return { ...problem, cluster: { ...problem.cluster, peers: chosen } };
}

function searchAtOnce(problem: ClusterProblem, isLate: (progress: Progress) => boolean): Outcome {
  const search = searchPlan(problem);
  const outcome = new Outcome(problem, search);
  for (const progress of search.progress) if (outcome.take(progress, isLate(progress))) break;
  return outcome;
}

/** `rest` resolves when everything that was waiting has had its turn. */
export async function planInSlices(
  problem: ClusterProblem,
  now: Stopwatch,
  rest: () => Promise<void>,
): Promise<Result<ClusterPlan>> {
  const search = searchPlan(problem);
  const outcome = new Outcome(problem, search);
  let spent = 0;
  let begun = now();
  const restAfterSlice = async (): Promise<void> => {
    const slice = now() - begun;
    if (slice < SLICE_MS) return;
    spent += slice;
    await rest();
    begun = now();
  };
  for (const progress of search.progress) {
    const ms = spent + now() - begun;
    const isLate = ms >= IN_SLICES_MOST_MS || (ms >= IN_SLICES_MS && progress.work >= IN_SLICES_WORK);
    if (outcome.take(progress, isLate)) break;
    await restAfterSlice();
  }
  let result = NOTHING_YET;
  for (result of outcome.results()) await restAfterSlice();
  return result;
}
