/** Faults on purpose, by the script of `shoal swarm --chaos`: the loss curve does not notice, and each fault fired. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curveFaults, weightFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, runSwarm, temporaryFolder } from './product.ts';

const IS_LONG = process.env.SHOAL_LONG === '1';

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

test('of three donors one sends what is no number: it goes, nobody else, and the others train on', async () => {
  const { refused, rollbacks, donorsAtEnd } = await chaos(3, 'nan:1@5');
  // The word to begin may come to it when what it sends of that step is on its way.
  expect(refused).toEqual([{ donor: 1, atStep: expect.toSatisfy((step) => step >= 5), reason: 'faulty' }]);
  expect(rollbacks).toEqual([]);
  expect(donorsAtEnd).toBe(2);
});

test.runIf(IS_LONG)(
  '[RE20] [RE40] [RE42] [RE43] one is killed, one frozen, one slower, one cut off: nothing is given up, and the report says what it cost',
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
