/** Faults on purpose, by the script of `shoal swarm --chaos`: the loss curve does not notice, and each fault fired. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { arrayOf } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { modelOf } from '../swarm/run/runFile.ts';
import { donors } from '../swarm/testing/randomPlan.ts';
import { allAtOnce } from '../swarm/testing/statePlans.ts';
import { curveFaults, weightFaults } from './fidelity.ts';
import {
  copyOfRun,
  expectReplayed,
  goldenFile,
  IS_LONG,
  isSeldomDue,
  jsonLines,
  runFileAt,
  runSwarm,
  temporaryFolder,
  withSteps,
} from './product.ts';

interface FaultCost {
  readonly entry: string;
  readonly detectedSeconds: number | null;
  readonly resumedSeconds: number | null;
  readonly stepsGivenUp: number;
}

interface Report {
  readonly chaos: readonly { readonly entry: string; readonly firedAtStep: number | null }[];
  readonly rollbacks: readonly { readonly atStep: number; readonly toStep: number; readonly reason: string }[];
  readonly faults: readonly FaultCost[];
  readonly refused: readonly { readonly donor: number; readonly atStep: number; readonly reason: string }[];
}

/** gpt2-tiny, checkpoints every 3 steps: within the oracle's bounds at every step, and replayed, whatever the script. */
async function chaos(
  donors: number,
  script: string,
  ...more: string[]
): Promise<Report & { readonly donorsAtEnd: number | undefined }> {
  const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, checkpoint: { everySteps: 3 } }));
  const [folder, reportFile] = [join(temporaryFolder(), 'export'), join(temporaryFolder(), 'report.json')];
  const record = join(temporaryFolder(), 'record.jsonl');
  const options = ['--donors', String(donors), '--chaos', script, '--report', reportFile, '--export', folder];
  const { metrics } = await runSwarm(run, ...options, '--record', record, ...more);
  await expectReplayed(record);
  expect(curveFaults('gpt2-tiny', 20, metrics)).toEqual([]);
  expect(weightFaults('gpt2-tiny', folder)).toEqual([]);
  const report: Report = JSON.parse(readFileSync(reportFile, 'utf8'));
  expect(report.chaos.map(({ entry }) => entry)).toEqual(script.split(','));
  for (const { entry, firedAtStep } of report.chaos)
    expect(firedAtStep, entry).toBeGreaterThanOrEqual(Number.parseInt(entry.split('@')[1] ?? '', 10));
  expect(report.faults.map(({ entry }) => entry)).toEqual(script.split(','));
  const faults = report.chaos.filter(({ entry }) => !entry.startsWith('join'));
  expect(report.rollbacks.length).toBeLessThanOrEqual(faults.length);
  for (const { atStep, toStep } of report.rollbacks) expect(atStep - toStep).toBeLessThanOrEqual(4);
  return { ...report, donorsAtEnd: metrics.at(-1)?.donors };
}

test.runIf(isSeldomDue)(
  'of three donors one sends what is no number: it goes, nobody else, and the others train on',
  async () => {
    const { refused, rollbacks, donorsAtEnd } = await chaos(3, 'nan:1@5');
    // The word to begin may come to it when what it sends of that step is on its way.
    expect(refused).toEqual([{ donor: 1, atStep: expect.toSatisfy((step) => step >= 5), reason: 'faulty' }]);
    expect(rollbacks).toEqual([]);
    expect(donorsAtEnd).toBe(2);
  },
);

test.runIf(IS_LONG)(
  '[RE20] [RE40] one is killed, one frozen, one slower, one cut off: nothing is given up, and the report says what it cost',
  async () => {
    const script = 'slow:0@1*2,kill:3@3,freeze:1@6+10s,cut:2@12+10s';
    const { faults, rollbacks, refused } = await chaos(4, script, '--replicas', '1');
    expect(refused).toEqual([]);
    expect(rollbacks).toEqual([]);
    const [slow, ...silent] = faults;
    expect(slow?.resumedSeconds).toBeGreaterThan(0);
    for (const { detectedSeconds, resumedSeconds } of silent) {
      // Known by its silence; the next commit came after that.
      expect(detectedSeconds).toBeGreaterThan(0);
      expect(resumedSeconds).toBeGreaterThan(detectedSeconds ?? 0);
    }
    expect(faults.map(({ stepsGivenUp }) => stepsGivenUp)).toEqual(faults.map(() => 0));
  },
);

test('[RE20] [RE30] one is killed, one comes, one is frozen, one loses its GPU, the server is killed, one after the other: nothing is given up', async () => {
  const script = 'kill:1@4,join@6,freeze:2@8+10s,gpu-lost:0@11,server-kill@15';
  const { faults, rollbacks, refused } = await chaos(4, script, '--replicas', '1');
  // The frozen one is known by its silence, or, where the server is slow to look, by the step that it holds up.
  expect(refused.filter(({ donor, reason }) => donor !== 2 || reason !== 'tooLate')).toEqual([]);
  expect(rollbacks).toEqual([]);
  expect(faults.map(({ stepsGivenUp }) => stepsGivenUp)).toEqual(faults.map(() => 0));
});

/** Enough after the last change that it is over long before, however slow the machine: it makes steps slower too. */
const CHANGING_STEPS = 32;
const DONORS = 4;
const LAST_STEPS = 6;
/** Those who are opened first give some; who comes later gives none, and has the last place. */
const HOST = arrayOf(DONORS, () => ['--donor', 'host=8MiB']).flat();

/** Names of spans that donors told of the last steps, without micro-batches. */
function lastSpans(record: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const line of readFileSync(record, 'utf8').trim().split('\n')) {
    const { message } = JSON.parse(line).event;
    if (message?.type !== 'report' || message.step < CHANGING_STEPS - LAST_STEPS) continue;
    for (const { action } of [...message.spans, ...(message.behind?.spans ?? [])])
      names.add(action.replace(/^\d+|\d+$/g, ''));
  }
  return names;
}

/**
 * The state in every place that a plan may put it. By every schedule and place the simulation does the same in exact integers
 * (web/src/testing/simulation/schedules.test.ts).
 */
test.runIf(isSeldomDue)(
  '[ST1] [RE20] gathered, in main memory and state alone: one is killed, one comes, one leaves, and the curve does not notice',
  async () => {
    const path = copyOfRun('gpt2-long', withSteps(CHANGING_STEPS));
    const run = runFileAt(path);
    const folder = temporaryFolder();
    const [plan, report, record] = [
      join(folder, 'plan.json'),
      join(folder, 'report.json'),
      join(folder, 'record.jsonl'),
    ];
    writeFileSync(plan, JSON.stringify(allAtOnce(modelOf(run), run.train.globalBatchSize, donors(DONORS))));
    const { metrics } = await runSwarm(
      path,
      ...['--plan', plan, ...HOST, '--chaos', 'kill:1@3,join@6,leave:0@10', '--report', report, '--record', record],
    );
    expect(curveFaults('gpt2-long', CHANGING_STEPS, metrics)).toEqual([]);
    const { chaos, rollbacks, refused, faults } = JSON.parse(readFileSync(report, 'utf8'));
    expect({ rollbacks, refused }).toEqual({ rollbacks: [], refused: [] });
    expect(chaos.map(({ firedAtStep }: { firedAtStep: number | null }) => firedAtStep)).not.toContain(null);
    for (const { stepsGivenUp } of faults) expect(stepsGivenUp).toBe(0);
    // The first plan, without who was killed, with the newcomer, without who left.
    expect(metrics.at(-1)).toMatchObject({
      donors: DONORS - 1,
      plan: expect.toSatisfy((number: number) => number >= 4),
    });
    expect([...lastSpans(record)]).toEqual(expect.arrayContaining(['GATHER_F', 'UPDATE_HOST']));
    await expectReplayed(record);
  },
);

function expectNearGolden(metrics: readonly { readonly loss: number }[]): void {
  const expected = jsonLines(goldenFile('gpt2-tiny/expected.jsonl')) as CommitRecord[];
  expect(metrics).toHaveLength(expected.length);
  for (const [step, { loss }] of expected.entries())
    expect(Math.abs((metrics[step]?.loss ?? Number.NaN) / loss - 1), `step ${step}`).toBeLessThan(1e-2);
}

/** Gradient sums and values as int8 codes. */
test.runIf(isSeldomDue)(
  '[WI34] [WI36] with codes and replicas a kill, a join and a server that dies cost no committed step',
  async () => {
    const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, precision: { state: 'int8' } }));
    const report = join(temporaryFolder(), 'report.json');
    const script = 'kill:1@4,join@7,server-kill@12';
    const { metrics } = await runSwarm(
      ...[run, '--donors', '3', '--stages', '1', '--replicas', '1', '--chaos', script, '--report', report],
    );
    expectNearGolden(metrics);
    const { rollbacks, chaos: fired } = JSON.parse(readFileSync(report, 'utf8'));
    expect(rollbacks).toEqual([]);
    for (const { entry, firedAtStep } of fired) expect(firedAtStep, entry).not.toBeNull();
  },
);
