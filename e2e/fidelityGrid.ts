/**
 * The grid of ST1: golden models with 1, 2, 3, 4 and 6 donors, gpipe and 1f1b, 1, 2 and 4 stages; every other schedule with 2
 * and 4, on models of odd sizes too, as far as they have the layers; and of both models twenty random valid plans, whose
 * state may be gathered, in main memory, copied, or with who computes nothing. A case is the command
 * line that makes it, so that each failure can be run again by hand.
 */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { arrayOf } from '../swarm/base.ts';
import { type Plan, peers } from '../swarm/plan/plan.ts';
import { modelOf, type RunFile } from '../swarm/run/runFile.ts';
import { GRID_PLANS, gridPlan, isLayered, membersOf, waysOf } from '../swarm/testing/gridPlans.ts';
import { goldenFile, runFileAt } from './product.ts';

const GOLDEN_RUNS = ['gpt2-tiny', 'llama-tiny'] as const;
/** Of 5 layers and 7 samples; of 2 layers and 3 samples. */
const ODD_RUNS = ['odd-gpt2', 'odd-llama'] as const;
const DONORS = [1, 2, 3, 4, 6];
const STAGES = [1, 2, 4];
const SCHEDULES = ['gpipe', '1f1b'] as const;
/** Every schedule: donors, options, stages. */
const ORDERS = [
  [1, ['interleaved', '--chunks', '4'], 4],
  [2, ['interleaved', '--chunks', '2'], 4],
  [4, ['interleaved', '--chunks', '1'], 4],
  [2, ['breadth-first', '--chunks', '2'], 4],
  [4, ['breadth-first', '--chunks', '1'], 4],
  [2, ['chimera'], 2],
  [4, ['chimera'], 4],
  [4, ['chimera', '--pairs', '2'], 4],
  [2, ['1f1b', '--warmup', 'overlap'], 2],
  [4, ['1f1b', '--warmup', 'overlap'], 4],
  [2, ['eager'], 2],
  [4, ['eager', '--warmup', 'overlap'], 4],
  [2, ['varuna'], 2],
  [4, ['varuna'], 4],
] as const;
/** Of each donor of a random plan. */
const HOST = 'host=64MiB';

export interface GridCase {
  readonly run: string;
  readonly name: string;
  readonly donors: number;
  /** Null: as many as the planner chooses. */
  readonly stages: number | null;
  /** Of the donors those that compute. */
  readonly computing: number;
  /** Options of `shoal swarm`, but for a plan's file. */
  readonly options: readonly string[];
  readonly plan: Plan | null;
}

export function wholeGrid(): GridCase[] {
  return GOLDEN_RUNS.flatMap((run) => [
    ...SCHEDULES.flatMap((schedule) =>
      DONORS.flatMap((donors) =>
        STAGES.filter((stages) => stages <= donors).map((stages) => splitCase(run, donors, schedule, stages)),
      ),
    ),
    ...ORDERS.map(([donors, schedule, stages]) => scheduleCase(run, donors, schedule, stages)),
    ...arrayOf(GRID_PLANS, (seed) => randomCase(run, seed)),
  ]).concat(
    ODD_RUNS.flatMap((run) => {
      const { layers } = factsOf(run);
      const there = ORDERS.filter(([, , stages]) => stages <= layers);
      return there.map(([donors, schedule, stages]) => scheduleCase(run, donors, schedule, stages));
    }),
  );
}

interface GoldenFacts {
  readonly layers: number;
  readonly steps: number;
  /** Of a step. */
  readonly tokens: number;
}

/** Of a golden run. */
export function factsOf(run: string): GoldenFacts {
  const { train, ...file } = readRun(run);
  const { layers } = modelOf({ train, ...file });
  return { layers, steps: train.steps, tokens: train.globalBatchSize * train.sequenceLength };
}

const readRun = (run: string): RunFile => runFileAt(goldenFile(`${run}/run.json`));

/** One of each kind. Lanes unlike from stage to stage, stages held twice, orders that follow messages, odd sizes, no shape. */
export const SOME: readonly GridCase[] = [
  splitCase('gpt2-tiny', 3, '1f1b', 2),
  scheduleCase('llama-tiny', 2, ['chimera'], 2),
  scheduleCase('odd-gpt2', 2, ['varuna'], 2),
  // With all that saves memory at once.
  randomCase('llama-tiny', 9),
  // Each block gathered once a pass.
  randomCase('gpt2-tiny', 15),
];

function splitCase(run: string, donors: number, schedule: string, stages: number): GridCase {
  const options = ['--donors', String(donors), '--schedule', schedule, '--stages', String(stages)];
  return { run, name: `${run} ${options.join(' ')}`, donors, computing: donors, stages, options, plan: null };
}

function scheduleCase(run: string, donors: number, schedule: readonly string[], stages: number): GridCase {
  const options = ['--donors', String(donors), '--schedule', ...schedule];
  return { run, name: `${run} ${options.join(' ')}`, donors, computing: donors, stages, options, plan: null };
}

function randomCase(run: (typeof GOLDEN_RUNS)[number], seed: number): GridCase {
  const plan = randomPlan(run, seed);
  const donors = peers(plan).length;
  const facts = [`${donors} donors`, plan.schedule, ...waysOf(plan), ...(isLayered(plan) ? ['once a pass'] : [])];
  return {
    run,
    name: `${run} random plan ${seed} (${facts.join(', ')})`,
    ...{ donors, computing: membersOf(plan).size, stages: plan.stages.length, plan },
    options: arrayOf(donors, () => ['--donor', HOST]).flat(),
  };
}

function randomPlan(run: (typeof GOLDEN_RUNS)[number], seed: number): Plan {
  const file = readRun(run);
  return gridPlan(modelOf(file), file.train.globalBatchSize, seed + GRID_PLANS * GOLDEN_RUNS.indexOf(run));
}

/** The case's options, its plan written into `folder`. */
export function optionsOf({ options, plan }: GridCase, folder: string): readonly string[] {
  if (plan === null) return options;
  const path = join(folder, 'plan.json');
  writeFileSync(path, JSON.stringify(plan));
  return ['--plan', path, ...options];
}
