/**
 * `shoal bench planner`: how long `shoal plan` takes for many peers, the whole command, and how near its plan comes to the
 * best that a long search finds. Clusters are random but seeded: peers 50 times apart in speed, 20 times in memory and 100
 * times in upload, in regions with links of their own. And the simulator's rate.
 */

import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { z } from 'zod';
import { arrayOf, invariant, type Random, seededRandom } from '../../swarm/base.ts';
import { outcomeOf } from '../../swarm/simulate/outcome.ts';
import { parseSimulateProblem } from '../../swarm/simulate/problem.ts';
import { wholeNumber } from '../commands/options.ts';
import { COMMAND_FILE } from '../files/projectRoot.ts';
import { type BenchFolder, inBenchFolder } from './benchFolder.ts';
import { benchOptimizer } from './page/optimizer.ts';

/** Peers, regions. */
const CLUSTERS: readonly (readonly [number, number])[] = [
  [64, 4],
  [256, 16],
  [1000, 20],
];
const MODELS = { small: { layers: 12, width: 768, samples: 64 }, large: { layers: 24, width: 1200, samples: 256 } };
const SIMULATED = { peers: 16, microBatches: 31_250 };
const OUTPUT_BYTES = 1e9;

interface Planned {
  readonly model: string;
  readonly peers: number;
  readonly regions: number;
  readonly seconds: number;
  readonly stepSeconds: number;
  /** Of the longer search. */
  readonly longStepSeconds: number | null;
}

interface Options {
  readonly long: number;
  readonly json?: boolean;
}

export function addPlannerBench(bench: Command): void {
  bench
    .command('planner')
    .description(
      'plans for 64, 256 and 1,000 unequal peers: seconds of the command, and its plan beside a long search’s',
    )
    .option('--long <s>', 'seconds of the long search; 0: none', wholeNumber('--long', 0), 120)
    .option('--json', 'one JSON document on standard output')
    .action(async ({ long, json }: Options) => {
      const result = { plans: await plans(long), simulate: simulated() };
      if (json) return console.log(JSON.stringify(result));
      for (const { model, peers, regions, seconds, stepSeconds, longStepSeconds } of result.plans) {
        const beside =
          longStepSeconds === null ? '' : `, ${(stepSeconds / longStepSeconds).toFixed(2)} × the long search's`;
        console.log(
          `${model}, ${peers} peers in ${regions} regions: ${seconds.toFixed(2)} s, a step of ${stepSeconds.toPrecision(3)} s${beside}`,
        );
      }
      console.log(`simulator: ${(result.simulate.actionsPerSecond / 1e6).toFixed(2)} million actions a second`);
    });
}

const plans = (longSeconds: number): Promise<Planned[]> =>
  inBenchFolder('planner', async (folder) => {
    writeFileSync(join(folder.path, 'text.txt'), 'text');
    const planned: Planned[] = [];
    for (const [model, sizes] of Object.entries(MODELS))
      for (const [peers, regions] of CLUSTERS) {
        const cluster = clusterOf(peers, regions, seededRandom(1));
        const begun = performance.now();
        const stepSeconds = await stepOf(folder, runOf(sizes), cluster, []);
        const seconds = (performance.now() - begun) / 1000;
        const long = ['--seconds', String(longSeconds)];
        const longStepSeconds = longSeconds === 0 ? null : await stepOf(folder, runOf(sizes), cluster, long);
        planned.push({ model, peers, regions, seconds, stepSeconds, longStepSeconds });
      }
    return planned;
  });

async function stepOf(
  { path, unlessStopped }: BenchFolder,
  run: object,
  cluster: object,
  more: readonly string[],
): Promise<number> {
  const [runFile, clusterFile] = [join(path, 'run.json'), join(path, 'cluster.json')];
  writeFileSync(runFile, JSON.stringify(run));
  writeFileSync(clusterFile, JSON.stringify(cluster));
  const words = [COMMAND_FILE, 'plan', runFile, '--cluster', clusterFile, '--json', ...more];
  const work = promisify(execFile)(process.execPath, words, { maxBuffer: OUTPUT_BYTES });
  const { stdout } = await unlessStopped(work).finally(() => work.child.kill());
  return z.object({ predicted: z.object({ stepSeconds: z.number() }) }).parse(JSON.parse(stdout)).predicted.stepSeconds;
}

function runOf({ layers, width, samples }: (typeof MODELS)['small']) {
  const optimizer = benchOptimizer();
  return {
    name: 'bench-planner',
    model: { model_type: 'gpt2', n_layer: layers, n_head: 12, n_embd: width, n_positions: 1024, vocab_size: 50_257 },
    data: { files: ['text.txt'], tokenizer: 'bytes' },
    init: { seed: 1 },
    train: { steps: 1, globalBatchSize: samples, sequenceLength: 1024, optimizer },
  };
}

function clusterOf(count: number, regions: number, random: Random) {
  const spread = (least: number, most: number): number => least * (most / least) ** random();
  const peers = arrayOf(count, (index) => ({
    id: `p${index}`,
    memoryBytes: Math.round(spread(4e8, 8e9)),
    flopsPerSecond: spread(1e11, 5e12),
    uploadBytesPerSecond: spread(5e5, 5e7),
    downloadBytesPerSecond: spread(2e6, 1e8),
    region: `r${index % regions}`,
  }));
  const between = Array.from({ length: regions }, (_, a) =>
    arrayOf(regions - a, (more) => {
      const inside = { latencySeconds: 0.005, bytesPerSecond: 2.5e7 };
      const across = { latencySeconds: spread(0.01, 0.15), bytesPerSecond: spread(2e6, 1e7) };
      return { between: [`r${a}`, `r${a + more}`], ...(more === 0 ? inside : across) };
    }),
  ).flat();
  const fallback = { latencySeconds: 0.04, bytesPerSecond: 2.5e6, windowBytes: 1.5e6 };
  return { peers, links: { default: fallback, regions: between } };
}

/** A schedule of a million actions, built, simulated and summed up; the second time, when the code is warm. */
function simulated() {
  const { peers, microBatches } = SIMULATED;
  const stages = arrayOf(peers, (stage) => ({
    forwardSeconds: 1 + (stage % 3) / 10,
    backwardSeconds: 2,
  }));
  const link = { latencySeconds: 0.1, bytesPerSecond: 1e6 };
  const json = { schedule: '1f1b', microBatches, stages, link, activationBytes: 1e4, gradientBytes: 1e4 };
  const problem = parseSimulateProblem(json);
  invariant(problem.ok, 'a problem');
  let seconds = 0;
  for (let round = 0; round < 2; round++) {
    const begun = performance.now();
    invariant(outcomeOf(problem.value).ok, 'an outcome');
    seconds = (performance.now() - begun) / 1000;
  }
  const actions = 2 * peers * microBatches;
  return { actions, seconds, actionsPerSecond: actions / seconds };
}
