/**
 * `shoal bench plan`: how well the planner predicts, and what its plan gains. Four throttled headless donors, opened and
 * measured once, train one run under one plan after the other, the first one for practice; each plan's step is predicted
 * with what was known before it began, then measured, and predicted again with how long its own pieces of work took: what is
 * off before and right after is the machine, what is off in both is the model. Between two plans the run stands still and
 * a fixed matrix product is timed: where this machine has become another, the plan is done again.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { clusterProblem, searchProblem } from '../../swarm/autoplan/knownDonors.ts';
import { predictedSeconds } from '../../swarm/autoplan/predicting.ts';
import type { ReplannerState } from '../../swarm/autoplan/replannerState.ts';
import { arrayOf, median, type PeerId, refusal, success } from '../../swarm/base.ts';
import { type DonorSpec, NO_LIMITS } from '../../swarm/limits.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { type ClusterCosts, clusterCosts } from '../../swarm/planner/clusterCosts.ts';
import { replicated, replicaWish } from '../../swarm/planner/replicas.ts';
import { failed, need } from '../commands/failure.ts';
import { checkBrowsers, donorSpec, wholeNumber } from '../commands/options.ts';
import { PAGES_FOLDER } from '../files/projectRoot.ts';
import { closeAll, type HeadlessDonor, openHeadlessDonor } from '../headless/headless.ts';
import { terminalLog } from '../monitoring/log.ts';
import { type PlanSearch, searchHere } from '../planning/planThread.ts';
import { createServer, type Server } from '../server.ts';
import { addRun, type DataDirectory, openDataDirectory } from '../store/dataDirectory.ts';
import { type BenchFolder, inBenchFolder } from './benchFolder.ts';
import { namedPlans, PRACTICE, partsOf, planNames, planOfKind, planText } from './benchPlanCases.ts';
import { line, type Measured, overRounds, print, summary } from './benchPlanFigures.ts';
import { benchOptimizer } from './page/optimizer.ts';

/** Their sum is what two cores carry when one tab keeps both busy. */
const SPEEDS = [0.32, 0.19, 0.13, 0.08];
/** Kernels and buffers warm up, and the donors learn what each kind of work takes. */
const WARM_UP_STEPS = 2;
/** Past it the machine is another one than the one that was measured. */
const STEADY = 0.1;
const ATTEMPTS = 3;
const PRODUCT_SIZE = 320;
const PRODUCTS = 5;

const SAMPLES = 16;
/** Layers times positions: however many layers there are, a step is as much work. */
const DEPTH = 1_024;

const runOf = (layers: number) => ({
  name: 'bench-plan',
  // Few weights and many tokens: four tabs of one machine share what carries their links.
  model: { model_type: 'gpt2', n_layer: layers, n_head: 4, n_embd: 32, n_positions: 256, vocab_size: 256 },
  data: { files: ['text.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  train: {
    ...{ steps: 10_000, globalBatchSize: SAMPLES, sequenceLength: Math.floor(DEPTH / layers) },
    optimizer: benchOptimizer(),
  },
  checkpoint: { everySteps: 1_000 },
  // Else copies would be added to a plan that is to be measured without.
  state: { replicas: 0 },
});

interface BenchPlanOptions {
  readonly layers: number;
  readonly steps: number;
  readonly donor?: readonly DonorSpec[];
  readonly plans?: readonly string[];
  readonly rounds: number;
  readonly alone?: boolean;
  readonly once?: boolean;
  readonly json?: boolean;
}

export function addPlanBench(bench: Command): void {
  bench
    .command('plan')
    .description('four throttled donors under several plans: the predicted step beside the measured one, and the gain')
    .option('--steps <n>', 'timed steps of each plan', wholeNumber('--steps', 1), 12)
    .option('--donor <spec>', `a donor in place of speeds ${SPEEDS.join(', ')}; repeatable`, donorSpec)
    .option(
      '--plans <names>',
      'these plans, by name, separated by commas; with +N after a name, with N replicas',
      planNames,
    )
    .option('--layers <n>', 'of the model; interleaved and breadth-first need eight', wholeNumber('--layers', 1, 16), 4)
    .option('--rounds <n>', 'all of them so many times, in turn', wholeNumber('--rounds', 1), 1)
    .option('--once', 'repeat no plan where this machine became faster or slower')
    .option('--alone', 'each donor alone too: what their speeds add up to')
    .option('--json', 'one JSON document on standard output')
    .action(planBench);
}

const planBench = (options: BenchPlanOptions): Promise<void> =>
  inBenchFolder('plan', async (folder) => {
    const data = need(await openDataDirectory(join(folder.path, 'data'), false), failed);
    try {
      const results = await inFolder(folder, data, options);
      if (options.json)
        console.log(JSON.stringify({ ...summary(results), rounds: overRounds(results, options.rounds) }));
      else print(results, options.rounds);
    } finally {
      data.close();
    }
  });

async function inFolder(
  { path: folder, unlessStopped }: BenchFolder,
  data: DataDirectory,
  options: BenchPlanOptions,
): Promise<Measured[]> {
  writeFileSync(
    join(folder, 'text.txt'),
    'Call me Ishmael. Some years ago, never mind how long precisely. '.repeat(400),
  );
  writeFileSync(join(folder, 'run.json'), JSON.stringify(runOf(options.layers)));
  const runName = need(await addRun(data, join(folder, 'run.json')), failed);
  const specs: readonly DonorSpec[] =
    options.donor ?? SPEEDS.map((speed) => ({ browser: null, limits: { ...NO_LIMITS, speed }, isOwn: true }));
  checkBrowsers(specs.flatMap(({ browser }) => browser ?? []));
  const bench = new PlanBench();
  const log = terminalLog('warn');
  const server = need(
    await createServer({
      data,
      runName,
      port: 0,
      pages: PAGES_FOLDER,
      log,
      auto: true,
      search: bench.search,
      expectedDonors: specs.length,
    }),
    failed,
  );
  const donors: HeadlessDonor[] = [];
  try {
    server.run.command('pause');
    for (const [number, { browser, limits }] of specs.entries()) {
      const asked = { limits, ...(browser && { browser }) };
      donors.push(need(await unlessStopped(openHeadlessDonor(server.ownDonorUrl, number, log, asked)), failed));
    }
    return await unlessStopped(bench.all(server, data, options));
  } finally {
    await server.close();
    await closeAll(donors);
  }
}

/** Answers searches with the plan that is to be measured next, and predicts it. */
class PlanBench {
  #current: Plan | null = null;

  /** Where a better plan is looked for beside the training, there is none. */
  readonly search: PlanSearch = async (_config, _problem, budget) =>
    this.#current === null || budget === 'atLength'
      ? refusal('this plan is measured now')
      : success({ plan: this.#current, reasons: [], idle: [] });

  async all(server: Server, data: DataDirectory, options: BenchPlanOptions): Promise<Measured[]> {
    const { steps, rounds, alone, once } = options;
    const donors = peersOf(server);
    const asAdmitted = productMs();
    const results: Measured[] = [];
    const named = namedPlans(costsOf(server, donors), donors).map(({ name }) => name);
    const all = [...named.filter((name) => name !== PRACTICE), 'auto'];
    const names = [...(options.plans ?? all), ...(alone ? donors.map((_, index) => `alone ${index}`) : [])];
    await this.#measured(server, data, { name: PRACTICE, steps, asAdmitted, attempts: 1 });
    for (const name of arrayOf(rounds, () => names).flat()) {
      results.push(await this.#measured(server, data, { name, steps, asAdmitted, attempts: once ? 1 : ATTEMPTS }));
      process.stderr.write(`${line(results.at(-1))}\n`);
    }
    return results;
  }

  /** With what is known before it runs. */
  async #plan(server: Server, name: string, donors: readonly PeerId[]): Promise<Plan> {
    const costs = costsOf(server, donors);
    const replanner = undoubted(server);
    const problem = searchProblem(replanner.config, replanner.donors, donors);
    const { kind, replicas } = partsOf(name);
    const plan =
      kind === 'auto'
        ? need(await searchHere(replanner.config, problem, 'atOnce'), failed).plan
        : planOfKind(costs, donors, kind);
    if (plan === null) throw failed(`no plan ${name} can be made for these donors`);
    return replicas === undefined ? plan : replicated(costs, plan, replicaWish(replicas)).plan;
  }

  async #measured(server: Server, { store }: DataDirectory, trial: Trial): Promise<Measured> {
    const { name, steps, asAdmitted, attempts: most } = trial;
    const { run } = server;
    const donors = peersOf(server);
    for (let attempts = 1; ; attempts++) {
      const plan = await this.#plan(server, name, donors);
      const predicted = predictedSeconds(undoubted(server), plan) ?? Number.NaN;
      const before = productMs() / asAdmitted;
      this.#current = plan;
      const from = run.committedSteps + WARM_UP_STEPS;
      run.command('resume');
      await run.until(({ committedSteps, phase }) => committedSteps >= from + steps || phase === 'diverged');
      if (run.phase === 'diverged') throw failed(run.snapshot().sentence);
      run.command('pause');
      await run.until(({ phase }) => phase === 'paused' || phase === 'diverged');
      const after = productMs() / asAdmitted;
      const known = predictedSeconds(undoubted(server), plan) ?? Number.NaN;
      const timed = store.steps(run.name, from).slice(0, steps);
      const medianSeconds = median(timed.map(({ seconds }) => seconds)) ?? Number.NaN;
      const steady = Math.abs(before - 1) <= STEADY && Math.abs(after - 1) <= STEADY;
      if (!steady && attempts < most) continue;
      return {
        ...{ name, plan: planText(plan, donors), predictedSeconds: predicted, medianSeconds },
        ...{ ratio: predicted / medianSeconds, knownRatio: known / medianSeconds },
        ...{ tokensPerSecond: (timed[0]?.tokens ?? 0) / medianSeconds },
        bytes: (timed[0]?.bytesDirect ?? 0) + (timed[0]?.bytesRelayed ?? 0),
        ...{ machine: [before, after], steady, attempts },
      };
    }
  }
}

interface Trial {
  readonly name: string;
  readonly steps: number;
  readonly asAdmitted: number;
  /** At most so often. */
  readonly attempts: number;
}

/** What is known of the donors by now. On a machine that others use steps swing, and nobody is to be taken for slower than it says. */
function undoubted({ run: { replanner } }: Server): ReplannerState {
  return { ...replanner, donors: replanner.donors.map((donor) => ({ ...donor, slowdown: 1 })) };
}

function costsOf(server: Server, donors: readonly PeerId[]): ClusterCosts {
  const replanner = undoubted(server);
  return clusterCosts(clusterProblem(replanner.config, searchProblem(replanner.config, replanner.donors, donors)));
}

/** In the order in which they were opened. */
const peersOf = ({ run }: Server): PeerId[] => run.donors().map(({ peer }) => peer);

/** A fixed matrix product on one core, of the float32 kind: the least of a few. */
function productMs(): number {
  const filled = (value: number) => new Float32Array(PRODUCT_SIZE ** 2).fill(value);
  const [a, b, c] = [filled(0.5), filled(0.25), filled(0)];
  const times = arrayOf(PRODUCTS, () => {
    const begun = performance.now();
    addProduct(a, b, c);
    return performance.now() - begun;
  });
  return Math.min(...times);
}

/** No closure: an engine compiles the first of many closures to faster code than the others, and the machine would seem slower. */
function addProduct(a: Float32Array, b: Float32Array, c: Float32Array): void {
  const n = PRODUCT_SIZE;
  for (let i = 0; i < n; i++)
    for (let k = 0; k < n; k++) {
      const left = a[i * n + k] ?? 0;
      for (let j = 0; j < n; j++) c[i * n + j] = (c[i * n + j] ?? 0) + left * (b[k * n + j] ?? 0);
    }
}
