/**
 * `shoal bench learn`: what runs with islands learn, by real steps and real meetings in one process on the CPU: which
 * defaults of the outer step learn best, or, over the links of a cluster, which way of training learns most in the same time.
 */
import type { Command } from 'commander';
import { rounded } from '../../swarm/base.ts';
import { type Cluster, parseCluster } from '../../swarm/planner/cluster.ts';
import { aligned } from '../commands/aligned.ts';
import { badInput, need } from '../commands/failure.ts';
import { learningRate as rateOption, refuseWithout, wholeNumber } from '../commands/options.ts';
import { CLUSTER_FILE } from '../files/fileKinds.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { filePlaceFault, saveText } from '../files/outputPlace.ts';
import { openBook } from './learn/book.ts';
import { drawCurves } from './learn/curvesPicture.ts';
import { defaultsTable, learnDefaults } from './learn/defaults.ts';
import { type Curve, learnHomes } from './learn/homes.ts';

const HOUR_SECONDS = 3600;
/** At first, of the model of each table: about the best without islands. */
const [DEFAULTS_RATE, HOMES_RATE] = [2e-3, 1e-3];
/** Hues of ways of training, in the order of their curves' names. */
const HUES: readonly number[] = [0, 30, 140, 190, 225, 300];

interface Options {
  readonly seeds: number;
  readonly cluster?: string;
  readonly peers: number;
  readonly hours: number;
  readonly learningRate?: number;
  readonly svg?: string;
  readonly json?: boolean;
}

export function addLearnBench(bench: Command): void {
  bench
    .command('learn')
    .description('what islands learn: held-out loss by outer step and feedback, or over home links in the same time')
    .option('--seeds <n>', 'how many seeds of the first values and of the text’s order', wholeNumber('--seeds', 1), 3)
    .option('--cluster <file>', 'instead: what these peers learn in the same time over their links')
    .option('--peers <n>', 'only the first N peers of the cluster', wholeNumber('--peers', 1), 64)
    .option('--hours <n>', 'hours of training that --cluster compares', wholeNumber('--hours', 1), 10)
    .option(
      '--learning-rate <x>',
      `learning rate at the start (${DEFAULTS_RATE}, with --cluster ${HOMES_RATE})`,
      rateOption,
    )
    .option('--svg <file>', 'with --cluster: draw the curves into this file')
    .option('--json', 'one JSON document on standard output')
    .action(learn);
}

async function learn(
  { seeds, cluster: path, peers, hours, learningRate, svg, json }: Options,
  command: Command,
): Promise<void> {
  refuseWithout('--cluster', ['--svg', '--peers', '--hours'], command);
  const fault = svg === undefined ? null : filePlaceFault(svg);
  if (fault !== null) throw badInput(`--svg: ${fault}`);
  const cluster = path === undefined ? null : await openCluster(path, peers);
  const book = await openBook();
  const said = (words: string): void => void process.stderr.write(`${words}\n`);
  if (cluster === null) {
    const defaults = learnDefaults(book, { seeds, learningRate: learningRate ?? DEFAULTS_RATE }, said);
    console.log(json ? JSON.stringify({ defaults }) : defaultsTable(defaults));
    return;
  }
  const asked = { seconds: hours * HOUR_SECONDS, learningRate: learningRate ?? HOMES_RATE };
  const curves = learnHomes(book, cluster, asked, said);
  if (svg !== undefined) await saveText(svg, picture(curves, hours));
  console.log(json ? JSON.stringify({ curves }) : curvesTable(curves));
}

async function openCluster(path: string, peers: number): Promise<Cluster> {
  const cluster = need(parseCluster(need(await readJsonFile(path, CLUSTER_FILE), badInput), path), badInput);
  return { ...cluster, peers: cluster.peers.slice(0, peers) };
}

const lossOf = ({ points }: Curve): number => points.at(-1)?.[1] ?? Number.NaN;
const exchangeName = { none: '', f32: 'float32', sparse: 'sparse' } as const;

function curvesTable(curves: readonly Curve[]): string {
  const head = [
    'way of training',
    'exchange',
    'islands',
    'a round',
    'of it the meeting',
    'rounds',
    'steps',
    'held-out loss',
  ];
  const rows = curves.map((curve) => {
    const { name, exchange, islands, roundSeconds, meetingSeconds, rounds, steps } = curve;
    return [
      ...[name, exchangeName[exchange], String(islands), `${rounded(roundSeconds, 3)} s`],
      ...[exchange === 'none' ? '' : `${rounded(meetingSeconds, 3)} s`, String(rounds), String(steps)],
      lossOf(curve).toFixed(3),
    ];
  });
  return aligned([head, ...rows], '  ').join('\n');
}

/** One hue a way of training, its dense exchange in dashes. */
function picture(curves: readonly Curve[], hours: number): string {
  // One swarm that is the fastest donor alone is one line with it.
  const drawn = curves.filter(({ points }, index) => curves.findIndex((other) => other.points === points) === index);
  const ways = [...new Set(drawn.map(({ name }) => name))];
  const lines = drawn.map(({ name, exchange, points }) => ({
    name: [name, exchangeName[exchange]].filter((word) => word !== '').join(', '),
    isDashed: exchange === 'f32',
    hue: HUES[ways.indexOf(name) % HUES.length] ?? 0,
    points: points.map(([seconds, loss]) => [seconds / HOUR_SECONDS, loss] as const),
  }));
  return drawCurves(lines, `What ${hours} hours over home links teach`, ['hours', 'held-out loss, nats a byte']);
}
