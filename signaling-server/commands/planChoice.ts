/** Which plan `shoal swarm` trains with: what its options decide, checked against each other and against the run. */

import type { PlanWishes } from '../../swarm/autoplan/wishes.ts';
import type { DonorSpec } from '../../swarm/limits.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { donorCapacity, splitProblem } from '../../swarm/planner/equalSplit.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { readPlanFile } from '../planning/planFile.ts';
import { badInput, need } from './failure.ts';
import type { ScheduleWish } from './options.ts';

export interface PlanOptions {
  readonly donors?: number;
  /** In place of a number: one entry a donor. */
  readonly donor?: readonly DonorSpec[];
  readonly stages?: number;
  readonly microBatches?: number;
  readonly schedule?: ScheduleWish;
  /** Of donors with islands of their own, at most. */
  readonly groups?: number;
  readonly replicas?: number;
  /** A path. */
  readonly plan?: string;
}

interface PlanChoice {
  readonly donors: number;
  readonly wishes: PlanWishes;
}

const donorsSaid = ({ donor, donors }: PlanOptions): number | undefined => donor?.length ?? donors;

/** What is wrong without looking into any file. */
export function checkPlanOptions(options: PlanOptions): void {
  const { stages, plan } = options;
  checkAuto(options);
  if (plan !== undefined && options.groups !== undefined)
    throw badInput('--plan is of donors that do all islands: --groups cannot be said beside it');
  if (options.donor !== undefined && options.donors !== undefined)
    throw badInput('--donor and --donors exclude each other: give one of them');
  if (plan !== undefined) return;
  const donors = donorsSaid(options);
  if (donors === undefined) throw badInput('--donors is missing: how many headless donors train?');
  if ((stages ?? 1) > donors) throw badInput(`--stages must be at most --donors (${donors}), not ${stages}`);
}

/** What it decides by itself cannot be said beside it. */
export function checkAuto({ schedule, stages, microBatches, groups, plan }: PlanOptions): void {
  if (schedule !== 'auto') return;
  const decided = { '--stages': stages, '--micro-batches': microBatches, '--groups': groups, '--plan': plan };
  for (const [name, given] of Object.entries(decided))
    if (given !== undefined) throw badInput(`--schedule auto decides by itself what ${name} says: give one of them`);
}

/** `path` is the run file's. */
export async function choosePlan(options: PlanOptions, file: RunFile, path: string): Promise<PlanChoice> {
  const { stages, microBatches, schedule, groups, replicas, plan } = options;
  const copies = replicas === undefined ? {} : { replicas };
  const said = donorsSaid(options);
  const model = modelOf(file);
  const { globalBatchSize, islands } = file.train;
  if (groups !== undefined && !islands)
    throw badInput(`--groups is of a run with train.islands, which ${path} has not`);
  if (plan !== undefined) {
    const given = need(await readPlanFile(plan, model, globalBatchSize, islands), badInput);
    const donors = peers(given).length;
    agree({ ...options, ...(said === undefined ? {} : { donors: said }) }, given, donors, plan);
    return { donors, wishes: { plan: given, ...copies } };
  }
  const count = said ?? 0;
  if (schedule === 'auto') return { donors: count, wishes: { auto: true, ...copies } };
  checkStages(stages, model.layers, path);
  if (count > donorCapacity(model))
    throw badInput(
      `--donors must be at most ${donorCapacity(model)} for the ${model.layers} layers of ${path}, not ${count}`,
    );
  if ((microBatches ?? 1) > globalBatchSize)
    throw badInput(`--micro-batches must be at most train.globalBatchSize (${globalBatchSize}) of ${path}`);
  const wishes = {
    ...(stages === undefined ? {} : { stages }),
    ...(microBatches === undefined ? {} : { microBatches }),
    ...(schedule === undefined ? {} : { schedule }),
  };
  const problem = splitProblem(model, globalBatchSize, count, wishes);
  if (problem !== null) throw badInput(`${path}: ${problem}`);
  return { donors: count, wishes: { ...wishes, ...(groups === undefined ? {} : { groups }), ...copies } };
}

/** Options that a plan decides may be said again, but not otherwise. */
function agree(
  { donors, stages, microBatches, schedule }: PlanOptions,
  plan: Plan,
  peerCount: number,
  path: string,
): void {
  const said: [name: string, given: unknown, planned: unknown][] = [
    ['--donors', donors, peerCount],
    ['--stages', stages, plan.stages.length],
    ['--micro-batches', microBatches, plan.microBatches.length],
    ['--schedule', schedule, plan.schedule],
  ];
  for (const [name, given, planned] of said)
    if (given !== undefined && given !== planned)
      throw badInput(`${name} must be ${planned}, as in ${path}, not ${given}`);
}

export function checkStages(stages: number | undefined, layers: number, path: string): void {
  if ((stages ?? 1) > layers) throw badInput(`--stages must be at most the ${layers} layers of ${path}, not ${stages}`);
}
