/** `shoal simulate`: one schedule through the simulator. */

import type { Command } from 'commander';
import { counted, secondsText } from '../../swarm/quantityText.ts';
import { drawTimeline } from '../../swarm/simulate/drawing.ts';
import { outcomeDocument, outcomeOf, type SimulationOutcome } from '../../swarm/simulate/outcome.ts';
import { parseSimulateProblem, type SimulateProblem } from '../../swarm/simulate/problem.ts';
import { SCHEDULE_FILE } from '../files/fileKinds.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { filePlaceFault, saveText } from '../files/outputPlace.ts';
import { aligned } from './aligned.ts';
import { badInput, need } from './failure.ts';
import { tryIt } from './options.ts';

interface SimulateOptions {
  readonly json?: boolean;
  readonly svg?: string;
}

export function addSimulateCommand(program: Command): void {
  program
    .command('simulate')
    .description('simulate one schedule: how long it takes, and what each peer does when')
    .argument('<problem.json>', 'the schedule, its micro-batches, stages and links')
    .option('--json', 'one JSON document, with the timeline')
    .option('--svg <file>', 'draw the timeline into this file')
    .addHelpText('after', tryIt('simulate docs/examples/schedule.json'))
    .action(simulateCommand);
}

async function simulateCommand(path: string, options: SimulateOptions): Promise<void> {
  const fault = options.svg === undefined ? null : filePlaceFault(options.svg);
  if (fault !== null) throw badInput(`--svg: ${fault}`);
  const inFile = (sentence: string) => badInput(`${path}: ${sentence}`);
  const json = need(await readJsonFile(path, SCHEDULE_FILE), badInput);
  const problem = need(parseSimulateProblem(json), inFile);
  const outcome = need(outcomeOf(problem), inFile);
  if (options.svg !== undefined) {
    const made = await saveText(options.svg, drawTimeline(outcome, title(problem)));
    if (made !== null) process.stderr.write(`The folder ${made} was made for it.\n`);
  }
  process.stdout.write(options.json ? `${JSON.stringify(outcomeDocument(outcome))}\n` : table(problem, outcome));
}

const title = ({ schedule, stages, microBatches, pipelines }: SimulateProblem): string =>
  `${schedule}, ${pipelines > 1 ? `${pipelines} pipelines of ` : ''}${counted(stages.length, 'peer')}, ${microBatches} micro-batches`;

function table(problem: SimulateProblem, { makespanSeconds, bubbleRatio, peers, served }: SimulationOutcome): string {
  const rows = [
    ['peer', 'busy', 'idle', 'most in flight'],
    ...peers.map((peer, index) => [
      String(index),
      secondsText(peer.busySeconds, 6),
      secondsText(peer.idleSeconds, 6),
      String(peer.peakInFlight),
    ]),
  ];
  const whole = `${secondsText(makespanSeconds, 6)}, ${Number((100 * bubbleRatio).toFixed(2))} % of the peers' time idle`;
  const answered =
    served === undefined
      ? []
      : [
          `requests: ${counted(served.pieces, 'piece')} of ${secondsText(served.pieceSeconds, 6)} in the idle time, ${Number((100 * served.busyRatio).toFixed(2))} % of the peers' time busy`,
        ];
  return `${[`${title(problem)}: ${whole}`, ...aligned(rows, '  ', 'number'), ...answered].join('\n')}\n`;
}
