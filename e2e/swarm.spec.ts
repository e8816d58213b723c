/** Real swarms of headless browsers, from one command, beside the golden numbers of an independent trainer. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { arrayOf, got, totalOf } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { openDonor } from './browser.ts';
import { curveFaults, readTensors, weightFaults } from './fidelity.ts';
import {
  copyOfRun,
  goldenFile,
  IS_LONG,
  isSeldomDue,
  type Json,
  RunningCommand,
  runSwarm,
  shoal,
  startServer,
  temporaryFolder,
  withSteps,
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

test('an adapter is trained as the oracle does while a donor dies and another comes; merged, it is the base and s·B·A', async () => {
  const folder = temporaryFolder();
  const [adapter, merged] = [join(folder, 'adapter'), join(folder, 'merged')];
  const script = ['--donors', '3', '--stages', '2', '--chaos', 'kill:1@4,join@7'];
  const exports = ['--export', adapter, '--export-merged', merged];
  const { metrics } = await runSwarm(goldenFile('lora-tiny/run.json'), ...script, ...exports);
  expect(curveFaults('lora-tiny', 12, metrics)).toEqual([]);
  expect(weightFaults('lora-tiny', adapter, 'adapter_model.safetensors')).toEqual([]);
  const whole = readTensors(join(merged, 'model.safetensors'));
  const own = readTensors(join(adapter, 'adapter_model.safetensors'));
  for (const [name, base] of readTensors(goldenFile('qwen3-tiny/init.safetensors'))) {
    const module = `base_model.model.${name.replace(/\.weight$/, '')}`;
    const [a, b] = ['A', 'B'].map((x) => own.get(`${module}.lora_${x}.weight`));
    const expected = a && b ? base.map((value, i) => value + 2 * product(a, b, 4, i)) : base;
    const values = got(whole, name);
    expect(Math.max(...expected.map((value, i) => Math.abs(value - (values[i] ?? Number.NaN))))).toBeLessThan(1e-6);
  }
});

test('a base held as int8: within its bound of the float curve while a donor dies and another comes, and no nearer', async () => {
  const run = copyOfRun('lora-tiny', ({ train, ...file }) => ({
    ...file,
    train: { ...(train as Json), steps: 6, base: 'int8' },
  }));
  const { metrics } = await runSwarm(run, '--donors', '2', '--chaos', 'kill:1@1,join@3');
  expect(curveFaults('lora-tiny', 6, metrics, { loss: 3e-2, gradientNorm: 3e-2 })).toEqual([]);
  expect(curveFaults('lora-tiny', 6, metrics)).not.toEqual([]);
});

test.skipIf(isOverServers)('[WI37] a donor who comes back fetches nothing of the base again', async () => {
  const server = await startServer(copyOfRun('lora-tiny', withSteps(1_000)));
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.slice(name.length),
    );
  };
  const untilCommitted = async (): Promise<void> => {
    const before = await metric('shoal_committed_steps_total');
    await expect.poll(() => metric('shoal_committed_steps_total'), { timeout: 120_000 }).toBeGreaterThan(before);
  };
  const donor = await openDonor(server.url);
  await untilCommitted();
  const base = [...readTensors(goldenFile('qwen3-tiny/init.safetensors')).values()];
  const bytes = await metric('shoal_server_bytes_total{kind="base"}');
  expect(bytes).toBe(totalOf(base, ({ byteLength }) => byteLength));
  await donor.press('Leave');
  await donor.until('left');
  await donor.page.reload();
  await donor.press('Donate this GPU');
  await untilCommitted();
  expect(await metric('shoal_server_bytes_total{kind="base"}')).toBe(bytes);
});

/** Element `at` of B·A [out, in]. */
function product(a: Float32Array, b: Float32Array, rank: number, at: number): number {
  const inputs = a.length / rank;
  const [output, input] = [Math.floor(at / inputs), at % inputs];
  return Array.from({ length: rank }, (_, k) => (b[output * rank + k] ?? 0) * (a[k * inputs + input] ?? 0)).reduce(
    (sum, part) => sum + part,
  );
}

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
