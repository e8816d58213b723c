/**
 * The search for a plan in a thread of its own, so that a server full of donors answers them meanwhile. One thread a run,
 * kept: code that has run is fast. Where it dies, the search goes on in slices here.
 */
import { parentPort, Worker } from 'node:worker_threads';
import type { Command } from 'commander';
import { findGroups, type GroupsFound, type GroupsProblem } from '../../swarm/autoplan/groupsAnew.ts';
import { clusterProblem, type PlanningConfig, type SearchProblem } from '../../swarm/autoplan/knownDonors.ts';
import type { Found, SearchBudget } from '../../swarm/autoplan/replannerState.ts';
import { invariant, type Result, success } from '../../swarm/base.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { type ClusterPlan, planCluster, planning } from '../../swarm/planner/clusterPlan.ts';
import type { SearchProgress } from '../../swarm/planner/search.ts';
import { COMMAND_FILE, IS_BUILT } from '../files/projectRoot.ts';

const COMMAND = 'plan-thread';

export type PlanSearch = (config: PlanningConfig, problem: SearchProblem, budget: SearchBudget) => Promise<Found>;

/** Groups of donors, as islands. */
export type GroupsSearch = (config: PlanningConfig, problem: GroupsProblem) => Promise<Result<GroupsFound>>;

interface Searches {
  readonly search: PlanSearch;
  readonly searchGroups: GroupsSearch;
}

type Asked =
  | { readonly of: 'plan'; readonly problem: SearchProblem; readonly budget: SearchBudget }
  | { readonly of: 'groups'; readonly problem: GroupsProblem };
type Task = Asked & { readonly number: number; readonly config: PlanningConfig };
interface Answer {
  readonly number: number;
  readonly found: Result<unknown>;
}

const rest = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** In slices, here. */
export const searchInSlices = (problem: ClusterProblem): Promise<Result<ClusterPlan>> => planInSlices(problem, rest);

export const searchHere: PlanSearch = async (config, problem, budget) => {
  const cluster = clusterProblem(config, problem);
  await rest();
  const found = budget === 'atOnce' ? planAtOnce(cluster) : await searchInSlices(cluster);
  if (!found.ok) return found;
  const { plan, reasons, idle } = found.value;
  return success({ plan, reasons, idle });
};

export const searchGroupsHere: GroupsSearch = async (config, problem) => {
  await rest();
  return findGroups(config, problem);
};

/** Only the built command can be a thread; the sources, as the tests run them, search here. */
export function planSearch(): Searches & { release(): void } {
  if (!IS_BUILT) return { search: searchHere, searchGroups: searchGroupsHere, release: () => {} };
  const thread = new PlanThread();
  return {
    search: (...task) => thread.search(...task),
    searchGroups: (...task) => thread.searchGroups(...task),
    release: () => thread.close(),
  };
}

class PlanThread implements Searches {
  readonly #waiting = new Map<number, (found: unknown) => void>();
  #worker: Worker | null = null;
  #tasks = 0;

  readonly search: PlanSearch = async (config, problem, budget) =>
    ((await this.#asked(config, { of: 'plan', problem, budget })) as Found | null) ??
    searchHere(config, problem, budget);

  readonly searchGroups: GroupsSearch = async (config, problem) =>
    ((await this.#asked(config, { of: 'groups', problem })) as Result<GroupsFound> | null) ??
    searchGroupsHere(config, problem);

  /** The thread's answer, of the kind that was asked for; null: it died. */
  #asked(config: PlanningConfig, asked: Asked): Promise<unknown> {
    const worker = this.#worker ?? this.#open();
    const number = this.#tasks++;
    return new Promise((resolve) => {
      this.#waiting.set(number, resolve);
      worker.postMessage({ ...asked, number, config } satisfies Task);
    });
  }

  close(): void {
    void this.#worker?.terminate();
  }

  #open(): Worker {
    const worker = new Worker(COMMAND_FILE, { argv: [COMMAND] });
    this.#worker = worker;
    worker.unref();
    worker.on('message', ({ number, found }: Answer) => {
      this.#waiting.get(number)?.(found);
      this.#waiting.delete(number);
    });
    const ended = (): void => {
      if (this.#worker === worker) this.#worker = null;
      for (const resolve of this.#waiting.values()) resolve(null);
      this.#waiting.clear();
    };
    worker.on('error', ended);
    worker.on('exit', ended);
    return worker;
  }
}

export function addPlanThreadCommand(program: Command): void {
  program.command(COMMAND, { hidden: true }).action(servePlans);
}

/** Until the thread is ended. */
async function servePlans(): Promise<void> {
  const port = parentPort;
  invariant(port, `${COMMAND} is a thread of a server`);
  port.on('message', async ({ number, config, ...asked }: Task) => {
    const found =
      asked.of === 'plan'
        ? await searchHere(config, asked.problem, asked.budget)
        : await searchGroupsHere(config, asked.problem);
    port.postMessage({ number, found } satisfies Answer);
  });
  await new Promise(() => {});
}

/**
 * The search for a plan as a server can afford it: short where a plan is needed at once, longer in slices between which
 * everything else goes on. Both end after a number of drafts, so that the same donors get the same plan on every machine.
 * Of the drafts of a few donors a free machine judges some thousands in a tenth of a second.
 */
export const AT_ONCE_WORK = 2_000;
const IN_SLICES_WORK = 6_000;
/** With more donors it is looked for among the fastest first: nobody is answered meanwhile. */
const AT_ONCE_PEERS = 24;
/** Looks between two rests; in each some twenty drafts are judged. */
const LOOKS = 4;

const until =
  (most: number) =>
  ({ work }: SearchProgress): boolean =>
    work < most;

/** Where there is no plan yet it is looked for to the end of the search: a refusal stops a run. */
export function planAtOnce(problem: ClusterProblem): Result<ClusterPlan> {
  const few = fastest(problem);
  const found = few === problem ? null : planCluster(few, until(AT_ONCE_WORK), () => []);
  return found?.ok ? found : planCluster(problem, until(AT_ONCE_WORK));
}

function fastest(problem: ClusterProblem): ClusterProblem {
  const { peers } = problem.cluster;
  if (peers.length <= AT_ONCE_PEERS) return problem;
  const seconds = ({ measured }: (typeof peers)[number]): number =>
    (measured?.forwardSecondsPerLayer[0] ?? 0) + (measured?.backwardSecondsPerLayer[0] ?? 0);
  const chosen = peers.toSorted((a, b) => seconds(a) - seconds(b)).slice(0, AT_ONCE_PEERS);
  return { ...problem, cluster: { ...problem.cluster, peers: chosen } };
}

/** `rest` resolves when everything that was waiting has had its turn. */
export async function planInSlices(problem: ClusterProblem, rest: () => Promise<void>): Promise<Result<ClusterPlan>> {
  const looks = planning(problem, until(IN_SLICES_WORK));
  for (let count = 1; ; count++) {
    const look = looks.next();
    if (look.done) return look.value;
    if (count % LOOKS === 0) await rest();
  }
}
