/** Faults on purpose, by the script of `shoal swarm --chaos`: the loss curve does not notice, and each fault fired. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curveFaults, weightFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, RunningCommand, runSwarm, temporaryFolder, withSteps } from './product.ts';

const IS_LONG = process.env.SHOAL_LONG === '1';

interface FaultCost {
  readonly entry: string;
  readonly detectedSeconds: number | null;
  readonly resumedSeconds: number | null;
  readonly stepsGivenUp: number;
  readonly bytesMoved: number;
}

interface Report {
  readonly chaos: readonly { readonly entry: string; readonly firedAtStep: number | null }[];
  readonly rollbacks: readonly { readonly atStep: number; readonly toStep: number; readonly reason: string }[];
  readonly memory: readonly { readonly donor: number; readonly predictedBytes: number; readonly peakBytes: number }[];
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

// Long, as others below: at every change the scripts of several faults have them.
test.runIf(IS_LONG)('two of four donors are killed and one joins: the joiner computes', async () => {
  const { memory, donorsAtEnd } = await chaos(4, 'kill:1@3,join@6,kill:0@9');
  expect(memory.map(({ donor }) => donor)).toEqual([0, 1, 2, 3, 4]);
  expect(donorsAtEnd).toBe(3);
});

test.runIf(IS_LONG)(
  'a lost GPU, a killed server and one who comes while it is away: all come back by themselves and compute',
  async () => {
    const { memory, donorsAtEnd, rollbacks } = await chaos(2, 'gpu-lost:0@4,join@8,server-kill@9');
    expect(memory.map(({ donor }) => donor)).toEqual([0, 1, 2]);
    expect(donorsAtEnd).toBe(3);
    expect(rollbacks).toEqual([]);
  },
);

// Long: serverKills.spec.ts kills one at every change.
test.runIf(IS_LONG)('[RE30] a server that is killed costs no step: everyone comes back with what it has', async () => {
  const { rollbacks, donorsAtEnd } = await chaos(3, 'server-kill@5,server-kill@11');
  expect(rollbacks).toEqual([]);
  expect(donorsAtEnd).toBe(3);
});

test.runIf(IS_LONG).each([3, 4])(
  'of %i donors the one that reports no step any more goes, and nobody else',
  async (donors) => {
    const { refused, rollbacks, donorsAtEnd } = await chaos(donors, 'mute:1@3');
    expect(refused.map(({ donor, reason }) => ({ donor, reason }))).toEqual([{ donor: 1, reason: 'tooLate' }]);
    expect(refused[0]?.atStep).toBeGreaterThanOrEqual(3);
    expect(rollbacks.length).toBeLessThanOrEqual(1);
    expect(donorsAtEnd).toBe(donors - 1);
  },
);

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
  expect(refused).toEqual([]);
  expect(rollbacks).toEqual([]);
  expect(faults.map(({ stepsGivenUp }) => stepsGivenUp)).toEqual(faults.map(() => 0));
});

test.runIf(IS_LONG)('[RE40] who was frozen, and who was cut off, comes back by itself and computes', async () => {
  const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, train: { ...(file.train as object), steps: 5_000 } }));
  const swarm = new RunningCommand(['swarm', run, '--donors', '3', '--chaos', 'freeze:1@3+8s,cut:2@3+8s']);
  await swarm.printed(/Plan [2-9] with (1 donor|2 donors)/, 'stderr');
  await swarm.printed(/Plan (?:[2-9]|\d\d) with 3 donors[\s\S]*?\n\S+ (\d+) of 5000 steps/, 'stderr');
  await swarm.stop();
});

/** One donor is killed, and another comes, every so many steps; twice at every change. */
const KILLS = IS_LONG ? 60 : 2;
const STEPS_BETWEEN = 15;
/** Of gpt2-long. */
const GOLDEN_STEPS = 150;

test.runIf(IS_LONG)(
  '[RE20] a donor of four is killed again and again, and another one comes: no step is given up',
  async () => {
    const steps = STEPS_BETWEEN * (KILLS + 1);
    const entries = Array.from({ length: KILLS }, (_, kill) => {
      const step = STEPS_BETWEEN * (kill + 1);
      return `kill:${kill}@${step - 5},join@${step}`;
    });
    const run = copyOfRun('gpt2-long', withSteps(steps));
    const reportFile = join(temporaryFolder(), 'report.json');
    const options = ['--donors', '4', '--replicas', '1', '--chaos', entries.join(','), '--report', reportFile];
    const { metrics } = await runSwarm(run, ...options);
    const report: Report = JSON.parse(readFileSync(reportFile, 'utf8'));
    const kills = report.faults.filter(({ entry }) => entry.startsWith('kill'));
    const givenUp = report.faults.reduce((sum, { stepsGivenUp }) => sum + stepsGivenUp, 0);
    const longest = (seconds: readonly number[]): string => `${Math.max(0, ...seconds).toFixed(1)} s`;
    console.log(
      `${kills.length} kills: ${givenUp} steps given up, ${report.rollbacks.length} roll-backs; ` +
        `at most ${longest(kills.map(({ resumedSeconds }) => resumedSeconds ?? 0))} from a kill to the next commit, ` +
        `at most ${longest(metrics.map(({ seconds }) => seconds))} for a step that was committed`,
    );
    expect(report.rollbacks).toEqual([]);
    expect(report.refused).toEqual([]);
    expect(report.faults.map(({ stepsGivenUp }) => stepsGivenUp)).toEqual(report.faults.map(() => 0));
    expect(metrics).toHaveLength(steps);
    const golden = Math.min(steps, GOLDEN_STEPS);
    expect(curveFaults('gpt2-long', golden, metrics.slice(0, golden))).toEqual([]);
  },
  1_500_000,
);
