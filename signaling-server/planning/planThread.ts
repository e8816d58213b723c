/**
 * The search for a plan in a thread of its own, so that a server full of donors answers them meanwhile. One thread a
 * planner, kept: code that has run is fast. Where it dies, the search goes on in slices here.
 */
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parentPort, Worker } from 'node:worker_threads';
import type { Command } from 'commander';
import { invariant, type Result } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import type { ClusterPlan } from '../../swarm/planner/clusterPlan.ts';
import { COMMAND_FILE } from '../files/projectRoot.ts';
import { planInSlices } from './planSearch.ts';

const COMMAND = 'plan-thread';

export type PlanSearch = (problem: ClusterProblem) => Promise<Result<ClusterPlan>>;

/** A model is functions, which no thread can be sent: its config.json says the same. */
interface Task extends Omit<ClusterProblem, 'model'> {
  readonly number: number;
  readonly config: Readonly<Record<string, unknown>>;
}
interface Answer {
  readonly number: number;
  readonly found: Result<ClusterPlan>;
}

const now = (): number => performance.now();
const rest = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** In slices, here. */
export const searchInSlices: PlanSearch = (problem) => planInSlices(problem, now, rest);

/** Only the built command can be a thread; the sources, as the tests run them, search in slices. */
export function planSearch(config: Task['config']): { readonly search: PlanSearch; release(): void } {
  const isBuilt = fileURLToPath(import.meta.url).startsWith(dirname(COMMAND_FILE));
  if (!isBuilt) return { search: searchInSlices, release: () => {} };
  const thread = new PlanThread(config);
  return { search: (problem) => thread.search(problem), release: () => thread.close() };
}

class PlanThread {
  readonly #config: Task['config'];
  readonly #waiting = new Map<number, (found: Result<ClusterPlan> | null) => void>();
  #worker: Worker | null = null;
  #tasks = 0;

  constructor(config: Task['config']) {
    this.#config = config;
  }

  async search(problem: ClusterProblem): Promise<Result<ClusterPlan>> {
    const worker = this.#worker ?? this.#open();
    const number = this.#tasks++;
    const found = await new Promise<Result<ClusterPlan> | null>((resolve) => {
      this.#waiting.set(number, resolve);
      const { model: _, ...rest } = problem;
      worker.postMessage({ number, config: this.#config, ...rest } satisfies Task);
    });
    return found ?? searchInSlices(problem);
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
  port.on('message', async ({ number, config, ...rest }: Task) => {
    const model = modelFromConfig(config);
    invariant(model.ok, 'the server sent a model that it would have refused itself');
    const found = await searchInSlices({ model: model.value, ...rest });
    port.postMessage({ number, found } satisfies Answer);
  });
  await new Promise(() => {});
}
