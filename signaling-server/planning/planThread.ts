/**
 * The search for a plan in a thread of its own, so that a server full of donors answers them meanwhile. One thread a run,
 * kept: code that has run is fast. Where it dies, the search goes on in slices here.
 */
import { parentPort, Worker } from 'node:worker_threads';
import type { Command } from 'commander';
import { clusterProblem, type PlanningConfig, type SearchProblem } from '../../swarm/autoplan/knownDonors.ts';
import type { Found, SearchBudget } from '../../swarm/autoplan/replannerState.ts';
import { invariant, type Result, success } from '../../swarm/base.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import type { ClusterPlan } from '../../swarm/planner/clusterPlan.ts';
import { COMMAND_FILE, IS_BUILT } from '../files/projectRoot.ts';
import { planAtOnce, planInSlices } from './planSearch.ts';

const COMMAND = 'plan-thread';

export type PlanSearch = (config: PlanningConfig, problem: SearchProblem, budget: SearchBudget) => Promise<Found>;

interface Task {
  readonly number: number;
  readonly config: PlanningConfig;
  readonly problem: SearchProblem;
  readonly budget: SearchBudget;
}
interface Answer {
  readonly number: number;
  readonly found: Found;
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

/** Only the built command can be a thread; the sources, as the tests run them, search here. */
export function planSearch(): { readonly search: PlanSearch; release(): void } {
  if (!IS_BUILT) return { search: searchHere, release: () => {} };
  const thread = new PlanThread();
  return { search: (...task) => thread.search(...task), release: () => thread.close() };
}

class PlanThread {
  readonly #waiting = new Map<number, (found: Found | null) => void>();
  #worker: Worker | null = null;
  #tasks = 0;

  readonly search: PlanSearch = async (config, problem, budget) => {
    const worker = this.#worker ?? this.#open();
    const number = this.#tasks++;
    const found = await new Promise<Found | null>((resolve) => {
      this.#waiting.set(number, resolve);
      worker.postMessage({ number, config, problem, budget } satisfies Task);
    });
    return found ?? searchHere(config, problem, budget);
  };

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
  port.on('message', async ({ number, config, problem, budget }: Task) => {
    port.postMessage({ number, found: await searchHere(config, problem, budget) } satisfies Answer);
  });
  await new Promise(() => {});
}
