/** `shoal plan`: the plan that the server would make for a run on a cluster, and what it is predicted to take. */
import { existsSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import type { Command } from 'commander';
import { got, type PeerId, type Result, rounded, success } from '../../swarm/base.ts';
import { mostOfRound } from '../../swarm/islands/giving.ts';
import { type Cluster, parseCluster } from '../../swarm/planner/cluster.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { type ClusterPlan, comparedPlans, planCluster } from '../../swarm/planner/clusterPlan.ts';
import { parsePlannedRun, planIslands } from '../../swarm/planner/islandPlan.ts';
import { orderText } from '../../swarm/planner/otherOrders.ts';
import { reasonText } from '../../swarm/planner/reason.ts';
import { replicaWish } from '../../swarm/planner/replicas.ts';
import type { SearchProgress } from '../../swarm/planner/search.ts';
import { type PredictedRate, sweep } from '../../swarm/planner/sweep.ts';
import { changedCluster } from '../../swarm/planner/whatIf.ts';
import { counted, durationText, groupedText, rangeText, secondsText } from '../../swarm/quantityText.ts';
import { batchOf, modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { plainWire, type WireEncoding } from '../../swarm/wire.ts';
import { CLUSTER_FILE, RUN_FILE } from '../files/fileKinds.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { trainedRun } from '../weights/initialWeights.ts';
import { aligned } from './aligned.ts';
import { badInput, mustHave, need } from './failure.ts';
import { positive, tryIt } from './options.ts';
import { type IslandAnswer, islandDocument, islandTable, linksSaid } from './planIslands.ts';
import { islandRate, printSweep, swarmRate, sweptAxes } from './planSweep.ts';

interface PlanOptions {
  readonly cluster?: string;
  readonly seconds?: number;
  readonly whatIf?: string;
  readonly sweep?: string;
  readonly svg?: string;
  readonly json?: boolean;
}

export function addPlanCommand(program: Command): void {
  program
    .command('plan')
    .description('show the plan that the server would make for a cluster, with its predicted step time and memory')
    .argument('<run.json>', 'the run: its model and its batch')
    .option('--cluster <file>', 'a JSON file that names the peers and their links')
    .option('--seconds <s>', 'search for this many seconds (default: a quick search)', positive('--seconds'))
    .option('--what-if <text>', 'also plan for an edited cluster: "add 4 like a; remove b; uploadBytesPerSecond x2"')
    .option('--sweep <text>', 'plan for every cluster along one axis or two: "peers 2..8; bytesPerSecond x0.25..x4"')
    .option('--svg <file>', 'draw the sweep into this file')
    .option('--json', 'one JSON document on standard output')
    .addHelpText('after', tryIt('plan docs/examples/gpt2-small.json --cluster docs/examples/cluster.json'))
    .action(planCommand);
}

async function planCommand(path: string, options: PlanOptions): Promise<void> {
  const { seconds, whatIf, json } = options;
  const axes = sweptAxes(options);
  const clusterPath = mustHave('--cluster <file>', options.cluster, 'docs/examples/cluster.json');
  const parsed = need(parsePlannedRun(need(await readJsonFile(path, RUN_FILE), badInput), path), badInput);
  const { islands } = parsed;
  const run = need(await withWeightsThere(parsed.run, path), badInput);
  const given = need(
    parseCluster(need(await readJsonFile(clusterPath, CLUSTER_FILE), badInput), clusterPath),
    badInput,
  );
  const cluster =
    whatIf === undefined ? given : need(changedCluster(given, whatIf), (reason) => badInput(`--what-if: ${reason}`));
  const [model, replicas] = [modelOf(run), replicaWish(run.state?.replicas)];
  const batch = batchOf(run);
  const problemOf = (of: Cluster): ClusterProblem => ({ model, batch, replicas, cluster: of });
  const search = (problem: ClusterProblem): Result<ClusterPlan> => planCluster(problem, patience(seconds));
  if (axes !== null) {
    const quiet = patience(seconds, false);
    const unexplained = (): string[] => []; // what is missing takes a search of its own
    const predict = (of: Cluster): PredictedRate | null =>
      islands
        ? islandRate(planIslands(problemOf(of), islands))
        : swarmRate(planCluster(problemOf(of), quiet, unexplained));
    const swept = need(sweep(given, axes, predict), (reason) => badInput(`--sweep: ${reason}`));
    return printSweep(swept, `${run.name} on ${basename(clusterPath)}`, options);
  }
  if (islands) {
    const answerFor = (of: Cluster): Result<IslandAnswer> => {
      const planned = planIslands(problemOf(of), islands);
      if (!planned.ok) return planned;
      return success({
        islands: planned.value,
        cluster: of,
        synchronous: search(problemOf(of)),
        wire: plainWire(run.precision.wire),
        mostSteps: islands.rounds.count === 'auto' ? mostOfRound(run.train.steps) : null,
        overlaps: islands.overlap === true,
      });
    };
    const after = need(answerFor(cluster), (reason) => badInput(`${clusterPath}: ${reason}`));
    const before = whatIf === undefined || json ? null : answerFor(given);
    process.stdout.write(json ? `${JSON.stringify(islandDocument(after))}\n` : islandTable(after, before));
    return;
  }
  const { before, after } =
    whatIf === undefined
      ? { before: null, after: search(problemOf(given)) }
      : await comparedPlans(problemOf(given), problemOf(cluster), search);
  const found = need(after, (reason) => badInput(`${clusterPath}: ${reason}`));
  const answer = batch.ends === undefined ? found : withPriceOfEnds(found, search(withoutEnds(problemOf(cluster))));
  process.stdout.write(
    json
      ? `${JSON.stringify(documentOf(answer, plainWire(run.precision.wire)))}\n`
      : `${tableOf(answer, before)}${budgetText(answer, run.train.budget?.seconds)}`,
  );
}

function withoutEnds({ batch: { ends: _, ...batch }, ...problem }: ClusterProblem): ClusterProblem {
  return { ...problem, batch };
}

/** What it costs that only the operator's own peers have the first and last stage. */
function withPriceOfEnds(found: ClusterPlan, anyone: Result<ClusterPlan>): ClusterPlan {
  const rate = ({ predicted }: ClusterPlan): string => `${rounded(predicted.tokensPerSecond, 4)} tokens a second`;
  const without = anyone.ok ? rate(anyone.value) : 'no plan';
  const text = `The first and last stage, and the state of embedding and head, are with the operator’s own donors alone: ${rate(found)}; with these ends for anyone ${without}.`;
  return { ...found, reasons: [...found.reasons, { peer: null, text }] };
}

/** Weights need not be at hand to plan; those that are may untie the model. */
const withWeightsThere = async (run: RunFile, path: string): Promise<Result<RunFile>> =>
  typeof run.init === 'string' && existsSync(resolve(dirname(path), run.init)) ? trainedRun(run, path) : success(run);

/**
 * Until the time is up. However short, the first plan is waited for, and those that split everything evenly are among what
 * it is chosen from.
 */
function patience(seconds: number | undefined, isSaid = true): (progress: SearchProgress) => boolean {
  if (seconds === undefined) return ({ isQuick }) => isQuick;
  const end = performance.now() + 1000 * seconds;
  return ({ isQuick }) => {
    if (performance.now() < end) return true;
    if (!isSaid) return false;
    const than = isQuick ? 'the quick search without --seconds takes longer and' : 'a longer search';
    process.stderr.write(`The time ran out: this is the best plan of ${seconds} s, ${than} may find a better one.\n`);
    return false;
  };
}

const documentOf = ({ plan, predicted, idle, reasons }: ClusterPlan, wire: WireEncoding) => ({
  stages: plan.stages,
  microBatches: plan.microBatches,
  state: plan.state,
  schedule: plan.schedule,
  ...(plan.warmup && { warmup: plan.warmup }),
  ...(plan.maxInFlight !== undefined && { maxInFlight: plan.maxInFlight }),
  ...linksSaid(plan, wire),
  ...(plan.lines && { lines: plan.lines }),
  predicted,
  idle,
  reasons: reasons.map(reasonText),
});

/** What a run that ends with its time comes to. */
const budgetText = ({ predicted }: ClusterPlan, seconds: number | undefined): string =>
  seconds === undefined
    ? ''
    : `In its ${durationText(seconds)}: about ${groupedText(Math.floor(seconds / predicted.stepSeconds))} steps, ${groupedText(Math.floor(seconds * predicted.tokensPerSecond))} tokens.\n`;

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

function tableOf({ plan, predicted, idle, reasons }: ClusterPlan, before: Result<ClusterPlan> | null): string {
  const numbers = new Map(predicted.peers.map((peer) => [peer.peer, peer]));
  const row = (peer: PeerId, ...part: string[]): string[] => {
    const own = got(numbers, peer);
    return [
      ...[peer, ...part, secondsText(own.busySeconds), megabytes(own.memoryBytes)],
      ...[megabytes(own.memoryLimitBytes), megabytes(own.sentBytes)],
    ];
  };
  const members = new Set(plan.stages.flatMap((stage) => stage.members.map(({ peer }) => peer)));
  const keepers = predicted.peers.filter(({ peer }) => !members.has(peer));
  const rows = [
    ['peer', 'stage', 'layers', 'samples', 'recomputed', 'busy', 'memory', 'of', 'sent a step'],
    ...plan.stages.flatMap((stage, index) =>
      stage.members.map(({ peer, samples, recompute }) =>
        row(peer, String(index + 1), rangeText(stage.layers), String(samples), String(recompute.length)),
      ),
    ),
    ...keepers.map(({ peer }) => row(peer, 'none', '', '0', '0')),
  ];
  const rate = ({ predicted: { stepSeconds, tokensPerSecond } }: ClusterPlan): string =>
    `${secondsText(stepSeconds)} a step, ${rounded(tokensPerSecond, 4)} tokens a second`;
  return [
    `${rate({ plan, predicted, idle, reasons })}: ${counted(plan.stages.length, 'stage')}, ${counted(plan.microBatches.length, 'micro-batch')}, ${orderText(plan)}`,
    ...(before === null ? [] : [`before the change: ${before.ok ? rate(before.value) : before.reason}`]),
    ...aligned(rows, '  '),
    ...idle.map(({ peer, reason }) => `${peer} is left idle: ${reason}`),
    ...reasons.map(reasonText),
    '',
  ].join('\n');
}
