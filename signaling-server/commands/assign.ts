/** `shoal assign`: how large the micro-batches and state shards of a group's peers should be. */
import type { Command } from 'commander';
import { type Assignment, assign, type PeerSizing } from '../../swarm/planner/assign.ts';
import { parseSizingProblem, type SizingProblem } from '../../swarm/planner/sizing.ts';
import { SIZING_FILE } from '../files/fileKinds.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { aligned } from './aligned.ts';
import { badInput, need } from './failure.ts';
import { tryIt } from './options.ts';

/** What is found is called the least possible up to this part of it. */
const ROUNDING = 1e-6;

export function addAssignCommand(program: Command): void {
  program
    .command('assign')
    .description('share micro-batches and training state among unequal peers of one stage')
    .argument('<problem.json>', 'measured times and memory of the peers, the batch and the state they share')
    .option('--json', 'one JSON document on standard output')
    .addHelpText('after', tryIt('assign docs/examples/assign.json'))
    .action(assignFile);
}

async function assignFile(path: string, { json }: { readonly json?: boolean }): Promise<void> {
  const problem = need(parseSizingProblem(need(await readJsonFile(path, SIZING_FILE), badInput), path), badInput);
  const assignment = need(assign(problem), (reason) => badInput(`${path}: ${reason}`));
  process.stdout.write(json ? `${JSON.stringify(documentOf(assignment))}\n` : tableOf(problem, assignment));
}

/** The document of `--json`. JSON has no infinity: where every micro-batch fits, there is no largest one. */
function documentOf({ objectiveMs, samplesPerSecond, peers }: Assignment): unknown {
  const largest = (samples: number) => (Number.isFinite(samples) ? samples : null);
  return {
    objectiveMs,
    samplesPerSecond,
    peers: peers.map(({ id, microBatch, count, samples, stateGiB, stateShare, ...rest }) => ({
      ...{ id, microBatch, count, samples, stateGiB, stateShare },
      maxMicroBatch: largest(rest.maxMicroBatch),
      maxMicroBatchEvenState: largest(rest.maxMicroBatchEvenState),
    })),
  };
}

const COLUMNS: readonly (readonly [title: string, cell: (peer: PeerSizing) => string])[] = [
  ['peer', ({ id }) => id],
  ['samples a step', ({ samples }) => `${samples}`],
  ['micro-batches', ({ count, microBatch }) => `${count} of ${microBatch}`],
  ['ms a layer', ({ timeMs }) => timeMs.toFixed(2)],
  [
    'keeps of the state',
    ({ stateGiB, stateShare }) => `${stateGiB.toFixed(3)} GiB, ${(100 * stateShare).toFixed(1)} %`,
  ],
  ['memory used', ({ memoryGiB, memoryLimitGiB }) => `${memoryGiB.toFixed(2)} of ${memoryLimitGiB.toFixed(2)} GiB`],
  ['most at once', ({ maxMicroBatch }) => largestText(maxMicroBatch)],
  ['with equal shares', ({ maxMicroBatchEvenState }) => largestText(maxMicroBatchEvenState)],
];

/** What a newcomer cannot guess of the columns. */
const LEGEND = [
  'micro-batches: how many, of how many samples each. ms a layer: forward and backward of all of them; the slowest peer sets the pace.',
  'most at once: the largest micro-batch that fits beside what the peer keeps; with equal shares: if all kept as much as each other.',
];

const largestText = (samples: number): string => (Number.isFinite(samples) ? `${samples}` : 'any');

function tableOf({ layers, stateGiB }: SizingProblem, assignment: Assignment): string {
  const { objectiveMs, samplesPerSecond, leastMs, peers } = assignment;
  const rows = [COLUMNS.map(([title]) => title), ...peers.map((peer) => COLUMNS.map(([, cell]) => cell(peer)))];
  const isLeast = objectiveMs <= leastMs * (1 + ROUNDING);
  const above = isLeast ? 'the least possible' : `at most ${(100 * (objectiveMs / leastMs - 1)).toFixed(1)} % above it`;
  const step = `${((objectiveMs * layers) / 1000).toFixed(3)} s for ${layers} layers`;
  return [
    `${objectiveMs.toFixed(2)} ms a layer (${above}), ${step}, ${samplesPerSecond.toFixed(3)} samples a second`,
    ...aligned(rows, '   '),
    ...unevenNote(peers, stateGiB),
    ...LEGEND,
    '',
  ].join('\n');
}

/** Peers that an even split of the state would not fit, and who are used all the same. */
function unevenNote(peers: readonly PeerSizing[], stateGiB: number): string[] {
  const even = stateGiB / peers.length;
  const lacking = peers.filter((peer) => peer.maxMicroBatchEvenState < 1).map(({ id }) => id);
  if (lacking.length === 0) return [];
  const who = lacking.length === 1 ? `${lacking[0]} computes` : `${lacking.join(', ')} compute`;
  return [`${who} although an even share of the state (${even.toFixed(3)} GiB) leaves no room for a sample there.`];
}
