/** Which plan `shoal swarm` trains with: what its options decide, checked against each other and against the run. */

import { groupsWished, type PlanWishes, planWished, seatsOf } from '../../swarm/autoplan/wishes.ts';
import { arrayOf, given, peerId } from '../../swarm/base.ts';
import type { DonorSpec } from '../../swarm/limits.ts';
import { NEEDS_OWN } from '../../swarm/plan/ends.ts';
import { type Plan, WARMED_UP, type WarmUp } from '../../swarm/plan/plan.ts';
import { donorCapacity, ownedStages, type SplitOptions, splitProblem } from '../../swarm/planner/equalSplit.ts';
import { batchOf, MOST_ISLANDS, modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { readPlans } from '../planning/islandPlans.ts';
import { badInput, need } from './failure.ts';
import type { ScheduleWish } from './options.ts';

export interface PlanOptions {
  readonly donors?: number;
  /** In place of a number: one entry a donor. */
  readonly donor?: readonly DonorSpec[];
  readonly stages?: number;
  readonly microBatches?: number;
  readonly schedule?: ScheduleWish;
  readonly chunks?: number;
  readonly pairs?: number;
  readonly warmup?: WarmUp;
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
  if (options.donor !== undefined && options.donors !== undefined) throw badInput('give --donor or --donors, not both');
  if (plan !== undefined) return;
  const donors = donorsSaid(options);
  if (donors === undefined) throw badInput('--donors is missing: how many headless donors train?');
  if (ownedStages(donors, splitOptions(options)) === null && (stages ?? 1) > donors)
    throw badInput(`--stages must be at most --donors (${donors}), not ${stages}`);
}

/** What it decides by itself cannot be said beside it. */
export function checkAuto(options: PlanOptions): void {
  const { schedule, stages, microBatches, chunks, pairs, warmup, plan } = options;
  if (schedule !== 'auto') {
    checkBeside(options);
    return;
  }
  const decided = {
    ...{ '--stages': stages, '--micro-batches': microBatches, '--plan': plan },
    ...{ '--chunks': chunks, '--pairs': pairs, '--warmup': warmup },
  };
  for (const [name, given] of Object.entries(decided))
    if (given !== undefined)
      throw badInput(`--schedule auto decides that by itself: leave out ${name}, or name another schedule`);
}

/** Options that go with some schedules alone; a plan says its own. */
function checkBeside({ schedule, chunks, pairs, warmup, plan }: PlanOptions): void {
  const beside = [
    ['--chunks', chunks, ['interleaved', 'breadth-first']],
    ['--pairs', pairs, ['chimera']],
    ['--warmup', warmup, WARMED_UP],
  ] as const;
  for (const [name, given, schedules] of beside)
    if (given !== undefined && (plan !== undefined || !schedules.some((one) => one === schedule)))
      throw badInput(
        plan === undefined
          ? `${name} goes with --schedule ${schedules.join(' or ')}, not with ${schedule ?? 'the default'}`
          : `${name} cannot be said beside --plan, which says it`,
      );
}

/** What of the options the equal split is told. */
export function splitOptions({ stages, microBatches, schedule, chunks, pairs, warmup }: PlanOptions): SplitOptions {
  const order = schedule === 'auto' ? undefined : schedule;
  return given({ stages, microBatches, schedule: order, chunks, pairs, warmup });
}

/** `path` is the run file's. */
export async function choosePlan(options: PlanOptions, file: RunFile, path: string): Promise<PlanChoice> {
  const { stages, microBatches, schedule, replicas, plan } = options;
  const copies = given({ replicas });
  const said = donorsSaid(options);
  const model = modelOf(file);
  const { globalBatchSize, islands } = file.train;
  if (plan !== undefined) {
    const plans = need(await readPlans(plan, model, batchOf(file)), badInput);
    const donors = seatsOf(plans).length;
    for (const one of plans) agree({ ...options, ...given({ donors: said }) }, one, donors, plan);
    const [only, ...others] = plans;
    const wish = only !== undefined && others.length === 0 ? { plan: only } : { groupPlans: plans };
    return { donors, wishes: { ...wish, ...copies } };
  }
  const count = said ?? 0;
  if (schedule === 'auto') return { donors: count, wishes: { auto: true, ...copies } };
  const wishes = splitOptions(options);
  /** Of the largest group. */
  const share = Math.ceil(count / groupsWished(wishes, islands, count));
  if (ownedStages(share, wishes) === null) checkStages(stages, model.layers, path);
  const most = donorCapacity(model) * (islands?.count === 'auto' ? MOST_ISLANDS : (islands?.count ?? 1));
  if (count > most)
    throw badInput(`--donors must be at most ${most} for the ${model.layers} layers of ${path}, not ${count}`);
  if ((microBatches ?? 1) > globalBatchSize)
    throw badInput(`--micro-batches must be at most train.globalBatchSize (${globalBatchSize}) of ${path}`);
  const problem = splitProblem(model, globalBatchSize, share, wishes);
  if (problem !== null) throw badInput(`${path}: ${problem}`);
  return { donors: count, wishes: { ...wishes, ...copies } };
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

/** Of a run whose ends are the operator's own: whether a donor is a stranger. Refused where no plan leaves the ends to the others. */
export function strangersAmong(
  { donor: specs = [] }: PlanOptions,
  file: RunFile,
  path: string,
  { donors, wishes }: PlanChoice,
): (donor: number) => boolean {
  const isStranger = (donor: number): boolean => specs[donor]?.isOwn !== true;
  const refuse = (reason: string) => badInput(`${path}: trust.ends is "own": ${reason}`);
  const names = arrayOf(donors, (donor) => peerId(`donor ${donor}`));
  const own = new Set(names.filter((_, donor) => !isStranger(donor)));
  if (own.size === 0) throw refuse(`${NEEDS_OWN}: mark one, as in --donor own`);
  if (file.train.islands) {
    if (own.size < donors)
      throw refuse('with islands only the operator’s own donors compute: mark each, as in --donor own');
  } else if (!wishes.auto) need(planWished(modelOf(file), batchOf(file), wishes, { own })(names, new Map()), refuse);
  return isStranger;
}
