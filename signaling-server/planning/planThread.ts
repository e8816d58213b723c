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
import type { ClusterPlan } from '../../swarm/planner/clusterPlan.ts';
import { COMMAND_FILE, IS_BUILT } from '../files/projectRoot.ts';
import { planAtOnce, planInSlices } from './planSearch.ts';

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
