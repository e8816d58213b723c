/** Real swarms of headless browsers, from one command, beside the golden numbers of an independent trainer. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { arrayOf } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { curveFaults, weightFaults } from './fidelity.ts';
import {
  copyOfRun,
  goldenFile,
  IS_LONG,
  isSeldomDue,
  RunningCommand,
  runSwarm,
  shoal,
  temporaryFolder,
} from './product.ts';
import { isOverServers } from './twoServers.ts';
import { expectUnusual } from './unusual.ts';

const each = (metrics: readonly CommitRecord[], field: keyof CommitRecord) =>
  new Set(metrics.map((line) => line[field]));

// Skipped over several servers, which have no data directory to go on with.
test.skipIf(isOverServers)(
  'stopped after 7 steps in three uneven micro-batches, resumed by one donor, broken off, resumed: the same curve, every step once',
  async () => {
    const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, checkpoint: { everySteps: 3 } }));
    const data = ['--data-dir', temporaryFolder()];
    const folder = join(temporaryFolder(), 'export');
    const first = await runSwarm(run, '--donors', '2', '--micro-batches', '3', '--steps', '7', ...data);
    expect(curveFaults('gpt2-tiny', 7, first.metrics)).toEqual([]);
    expect(each(first.metrics, 'microBatches')).toEqual(new Set([3]));

    const alone = ['--donors', '1', ...data];
    const second = new RunningCommand(['swarm', run, ...alone]);
    await second.printed(/(\d+) of 20 steps/, 'stderr');
    const { code, stderr } = await second.stop();
    expect(code).toBe(1);
    expect(stderr.trimEnd().split('\n').at(-1)).toMatch(/^stopped after \d+ steps, before the end of the run$/);

    const { metrics } = await runSwarm(run, ...alone, '--export', folder);
    expect(curveFaults('gpt2-tiny', 20, metrics)).toEqual([]);
    expect(weightFaults('gpt2-tiny', folder)).toEqual([]);
    expect(metrics.slice(0, 7)).toEqual(first.metrics);
    expect(metrics.map(({ donors }) => donors)).toEqual([...Array(7).fill(2), ...Array(13).fill(1)]);
  },
);

/** None of them holds the model alone; two do, with layers computed again; the one that joins does by itself. */
const SMALL = arrayOf(3, () => ['--donor', 'memory=4MiB']).flat();

test('planned by auto: one of three small donors is killed, then a large one joins: within the bounds at every step', async () => {
  const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, checkpoint: { everySteps: 3 } }));
  const folder = temporaryFolder();
  const [weights, report] = [join(folder, 'export'), join(folder, 'report.json')];
  const options = ['--schedule', 'auto', ...SMALL, '--chaos', 'kill:1@4,join@7', '--report', report];
  const { metrics } = await runSwarm(run, ...options, '--export', weights);
  expect(curveFaults('gpt2-tiny', 20, metrics)).toEqual([]);
  expect(weightFaults('gpt2-tiny', weights)).toEqual([]);
  expect(metrics[0]?.donors).toBeGreaterThan(1);
  const { chaos, rollbacks } = JSON.parse(readFileSync(report, 'utf8'));
  for (const { entry, firedAtStep } of chaos) expect(firedAtStep, entry).not.toBeNull();
  expect(rollbacks.length).toBeLessThanOrEqual(1);
});

const TINY = goldenFile('gpt2-tiny/run.json');

test('a family with windows learns completions, packed, as the oracle does, while a donor dies and another comes', async () => {
  const script = ['--donors', '2', '--chaos', 'kill:1@4,join@7'];
  const { metrics } = await runSwarm(goldenFile('completion-tiny/run.json'), ...script);
  expect(curveFaults('completion-tiny', 12, metrics)).toEqual([]);
});

test.runIf(isSeldomDue)(
  '[LI3] memory caps shape the plan; what does not fit ends with the memory that is missing',
  async () => {
    const small = ['--donor', 'memory=4MiB,speed=0.9', '--donor', 'memory=64MiB,upload=4MB/s', '--steps', '2'];
    const { metrics } = await runSwarm(TINY, ...small);
    expect(metrics.map(({ donors }) => donors)).toEqual([2, 2]);
    const uneven = await shoal('swarm', TINY, '--donor', 'memory=64MiB', '--donor', 'memory=1MiB', '--steps', '2');
    expect(uneven.code).toBe(1);
    expect(uneven.stderr).toMatch(
      /does not fit these donors: about [\d.]+ \w+ of memory is missing\. donor 1 gives 1.0 MiB/,
    );
    const faulty = await shoal('swarm', TINY, '--donor', 'memory=1MiB', '--chaos', 'kill:0@1,join@2');
    expect(faulty.code).toBe(1);
    expect(faulty.stderr).toMatch(
      /does not fit these donors: about [\d.]+ \w+ of memory is missing\. donor 0 gives 1.0 MiB/,
    );
  },
);

// What is finite is committed, however unusual it is. In Firefox: firefox.spec.ts.
test.runIf(IS_LONG && !isOverServers).each([
  ['dashes', 'four donors that are planned for', ['--donors', '4', '--schedule', 'auto']],
  ['islands', 'two islands', ['--donors', '2']],
  ['repeats', 'two donors', ['--donors', '2']],
] as const)('%s, %s: no step is done twice', async (name, _who, options) => {
  await expectUnusual(name, ...options);
});
