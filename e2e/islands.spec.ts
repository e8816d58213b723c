/**
 * Runs with islands, computed by turns, beside the golden numbers of an independent trainer: by one, two and three donors,
 * whatever happens to them. Some cases at every change, all of them with SHOAL_LONG=1.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { curveFaults, type Line, SPARSE, weightFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, type Json, runSwarm, temporaryFolder } from './product.ts';

const IS_LONG = process.env.SHOAL_LONG === '1';
const STEPS = 40;
/** Two islands of six steps. */
const ROUND_STEPS = 12;

type Golden = 'islands-f32' | 'islands-sparse';
type Case = readonly [run: Golden, donors: number, script: string];
/** In place of a script. */
const UNDISTURBED = 'undisturbed';

/** In the middle of a turn, between two turns, and around a meeting. */
const SCRIPTS = [
  UNDISTURBED,
  'kill:1@8',
  'kill:0@14,kill:1@24',
  'join@9',
  'server-kill@6',
  'server-kill@15,server-kill@29',
];
const SOME: readonly Case[] = [
  ['islands-f32', 1, UNDISTURBED],
  ['islands-f32', 3, 'kill:1@8,join@17'],
  ['islands-sparse', 2, 'server-kill@9'],
];
const ALL: readonly Case[] = (['islands-f32', 'islands-sparse'] as const).flatMap((run) =>
  [1, 2, 3].flatMap((donors) =>
    SCRIPTS.flatMap((script): readonly Case[] => {
      const killed = script.match(/\bkill:/g)?.length ?? 0;
      return killed < donors ? [[run, donors, script]] : [];
    }),
  ),
);

/** A checkpoint is wanted every 10 steps, which is every round. */
const withCheckpoints = (run: Json): Json => ({ ...run, checkpoint: { everySteps: 10 } });

const faultsOf = (run: Golden, metrics: readonly Line[], steps = STEPS): string[] =>
  curveFaults(run, steps, metrics, run === 'islands-f32' ? undefined : SPARSE);

const digits = (metrics: readonly Line[]) => metrics.map(({ loss, gradientNorm }) => [loss, gradientNorm]);

async function train([run, donors, script]: Case): Promise<readonly Line[]> {
  const folder = temporaryFolder();
  const file = (name: string): string => join(folder, name);
  const { metrics } = await runSwarm(
    copyOfRun(run, withCheckpoints),
    ...['--donors', String(donors), '--report', file('report.json'), '--record', file('record.jsonl')],
    ...['--export', file('export'), ...(script === UNDISTURBED ? [] : ['--chaos', script])],
  );
  expect(faultsOf(run, metrics)).toEqual([]);
  if (run === 'islands-f32') expect(weightFaults(run, file('export'))).toEqual([]);
  await expectReplayed(file('record.jsonl'));
  const { rollbacks } = JSON.parse(readFileSync(file('report.json'), 'utf8'));
  // Each goes back to a meeting; who has a copy of everything loses nothing.
  for (const { toStep } of rollbacks) expect(toStep % ROUND_STEPS).toBe(0);
  if (donors > 1) expect(rollbacks).toEqual([]);
  return metrics;
}

describe('islands', () => {
  test.each(IS_LONG ? ALL : SOME)('[IS12] %s by %i donors, %s: within the bounds of ST1', async (...one) => {
    await train(one);
  });

  test.each<Golden>(IS_LONG ? ['islands-f32', 'islands-sparse'] : ['islands-sparse'])(
    '[IS12] %s with two donors comes out the same to the last digit, twice',
    async (run) => {
      const first = await train([run, 2, UNDISTURBED]);
      const again = await runSwarm(copyOfRun(run, withCheckpoints), '--donors', '2', '--steps', '24');
      expect(digits(again.metrics)).toEqual(digits(first.slice(0, 24)));
    },
  );

  test('[IS10] [IS11] stopped at a meeting, resumed by another number of donors, evaluated at meetings: the same curve', async () => {
    const run = copyOfRun('islands-f32', (file) => ({
      ...file,
      evaluation: { files: ['../gpt2-tiny/corpus.txt'], everySteps: 13 },
    }));
    const data = ['--data-dir', temporaryFolder()];
    const folder = join(temporaryFolder(), 'export');
    // The first meeting with at least 13 steps.
    const first = await runSwarm(run, '--donors', '2', '--steps', '13', ...data);
    expect(faultsOf('islands-f32', first.metrics, 24)).toEqual([]);
    const { metrics } = await runSwarm(run, '--donors', '1', '--export', folder, ...data);
    expect(faultsOf('islands-f32', metrics)).toEqual([]);
    expect(weightFaults('islands-f32', folder)).toEqual([]);
    expect(metrics.slice(0, 24)).toEqual(first.metrics);
    expect(metrics.flatMap((line) => ('evaluationLoss' in line ? line.step : []))).toEqual([23, 39]);
    expect(metrics.slice(0, 4).map(({ innerStep }: Line) => innerStep)).toEqual([0, 0, 1, 1]);
  });
});
