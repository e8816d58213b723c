/**
 * As many islands as there are donors, unequal ones: what they did is recorded, and a float64 trainer of one process that does
 * the recorded rounds again comes to the same losses.
 */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { copyOfRun, type Json, jsonLines, runSwarm, temporaryFolder } from './product.ts';
import { expectRecorded, type RecordedLine } from './recorded.ts';

/** At this number a round has one step, so that there are as many rounds as steps however fast anybody is. */
const STEPS = 24;
/** Here one has up to two, and there are as many as it takes a donor to come. */
const LONGER = 40;
/**
 * Who does which step is another each time, and at the golden run's rate there are rounds in which one rounding of the weights
 * changes a loss by more than 1e-5 (islandTraining.test.ts): at a third of it float32 is float64 to far below the bound.
 */
const RATE = 0.001;
const BOUND = 1e-5;

const recordedRun = (steps: number): string =>
  copyOfRun('islands-f32', (run) => {
    const train = run.train as Json;
    const islands = { count: 'auto', roundSeconds: 2, exchange: 'f32', publish: 'f32' };
    const optimizer = { ...(train.optimizer as Json), learningRate: RATE };
    // Who comes late begins within the warm-up, at the rate of its number and not of its island's first step.
    const schedule = { type: 'cosine', warmupSteps: 30, decaySteps: 60, minRatio: 0.1 };
    return { ...run, checkpoint: { everySteps: 15 }, train: { ...train, optimizer, schedule, steps, islands } };
  });

type Line = RecordedLine;

test('[IS65] [IS68] [IS69] two unequal donors do as many steps as they can, and the recorded rounds give their losses', async () => {
  const path = recordedRun(STEPS);
  const { metrics } = await runSwarm(path, '--donor', 'speed=1', '--donor', 'speed=0.4');
  expect(expectRecorded(path, metrics as readonly Line[], BOUND).size).toBe(STEPS);
});

test('[IS85] [IS86] [IS69] a donor is killed and another comes: nothing is given up but its own round, and the losses are those of the rounds', async () => {
  const path = recordedRun(LONGER);
  const report = join(temporaryFolder(), 'report.json');
  const donors = [0.8, 0.6, 0.6].flatMap((speed) => ['--donor', `speed=${speed}`]);
  const faults = ['--chaos', 'join@2,kill:1@15', '--report', report];
  const { metrics } = await runSwarm(path, ...donors, ...faults);
  const lines = metrics as readonly Line[];
  expectRecorded(path, lines, BOUND);
  const [said] = jsonLines(report) as Record<'rollbacks', unknown>[];
  expect(said?.rollbacks).toEqual([]);
  // The newcomer began an island of its own; the killed one's did no step after that.
  expect(lines.some(({ island }) => island >= 3)).toBe(true);
});
