/**
 * What islands share lies with owners, where slow uplinks would have to tell it to each of many: a float64 trainer of one process
 * that does the recorded rounds again comes to the same losses, whoever is lost.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { copyOfRun, type Json, jsonLines, runSwarm, temporaryFolder } from './product.ts';
import { expectRecorded, type RecordedLine } from './recorded.ts';

const STEPS = 40;
/** Near ties may be chosen otherwise by a sparse exchange (CONTRACT's bound for it). */
const BOUND = 1e-3;
const RATE = 0.001;

const sparseRun = (checkpointEvery: number): string =>
  copyOfRun('islands-sparse', (run) => {
    const train = run.train as Json;
    const { exchange } = train.islands as Json;
    const islands = { count: 'auto', roundSeconds: 2, exchange, publish: 'int8' };
    const optimizer = { ...(train.optimizer as Json), learningRate: RATE };
    return {
      ...{ ...run, checkpoint: { everySteps: checkpointEvery } },
      train: { ...train, optimizer, steps: STEPS, islands },
    };
  });

/** One good line, and four that would send their packets to each of the others for long. */
const DONORS = ['speed=0.4', ...Array.from({ length: 4 }, () => 'speed=0.2,upload=40kB/s')].flatMap((spec) => [
  '--donor',
  spec,
]);

test('[IS116] [IS117] [IS118] five donors, four of them with slow uplinks, one with copies is killed, another comes: the losses of a float64 trainer', async () => {
  const path = sparseRun(15);
  const [report, record] = [join(temporaryFolder(), 'report.json'), join(temporaryFolder(), 'record.jsonl')];
  const faults = ['--chaos', 'kill:1@14,join@20', '--report', report, '--record', record];
  const { metrics } = await runSwarm(path, ...DONORS, ...faults);
  expectRecorded(path, metrics as readonly RecordedLine[], BOUND);
  const [said] = jsonLines(report) as Record<'rollbacks', unknown[]>[];
  expect(said?.rollbacks).toEqual([]);
  const meetings = readFileSync(record, 'utf8').match(/"owned":\[/g) ?? [];
  expect(meetings.length).toBeGreaterThan(5);
});
