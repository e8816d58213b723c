/** Gradient sums and values as int8 codes: real tabs, a quarter of the bytes, near the golden curve, whoever comes and goes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { peerId } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { equalSplit } from '../swarm/planner/equalSplit.ts';
import { modelOf } from '../swarm/run/runFile.ts';
import { stepTraffic } from '../swarm/ways/stepTraffic.ts';
import { copyOfRun, goldenFile, jsonLines, runFileAt, runSwarm, temporaryFolder } from './product.ts';

const goldenLines = (name: string) => jsonLines(goldenFile(`${name}/expected.jsonl`)) as CommitRecord[];
const run = (golden = 'gpt2-tiny'): string => copyOfRun(golden, (file) => ({ ...file, precision: { state: 'int8' } }));

/** None of them holds the model alone. */
const SMALL = Array.from({ length: 2 }, () => ['--donor', 'memory=4MiB']).flat();

function expectNearGolden(metrics: readonly { readonly loss: number }[], expected = goldenLines('gpt2-tiny')): void {
  expect(metrics).toHaveLength(expected.length);
  for (const [step, { loss }] of expected.entries())
    expect(Math.abs((metrics[step]?.loss ?? Number.NaN) / loss - 1), `step ${step}`).toBeLessThan(1e-2);
}

/** What two lanes without replicas send as floats: half of all gradients there, and as many values back, each. */
function floatBytes(path: string): number {
  const parsed = runFileAt(path);
  const { globalBatchSize, sequenceLength: sequence } = parsed.train;
  const model = modelOf(parsed);
  const plan = equalSplit(model, globalBatchSize, ['a', 'b'].map(peerId), { stages: 1 });
  const { slice, values } = stepTraffic(model, plan, { sequence, wire: 'f32' });
  return slice + values;
}

test('[WI30] [WI35] two lanes: at most 0.3 of the bytes, near the golden curve, memory as predicted, the same digits twice', async () => {
  const path = run();
  const report = join(temporaryFolder(), 'report.json');
  const lanes = ['--donors', '2', '--stages', '1', '--replicas', '0'];
  const { metrics } = await runSwarm(path, ...lanes, '--report', report);
  expectNearGolden(metrics);
  const bytes = new Set(metrics.map(({ bytesDirect }) => bytesDirect));
  expect(bytes.size).toBe(1);
  for (const sent of bytes) {
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThanOrEqual(0.3 * floatBytes(path));
  }
  const { memory } = JSON.parse(readFileSync(report, 'utf8'));
  for (const { predictedBytes, peakBytes } of memory) expect(peakBytes).toBe(predictedBytes);
  const again = await runSwarm(path, ...lanes, '--steps', '6');
  expect(again.metrics.map(({ loss }) => loss)).toEqual(metrics.slice(0, 6).map(({ loss }) => loss));
});

test('[WI34] [WI36] with replicas a kill, a join and a server that dies cost no committed step', async () => {
  const report = join(temporaryFolder(), 'report.json');
  const chaos = 'kill:1@4,join@7,server-kill@12';
  const { metrics } = await runSwarm(
    ...[run(), '--donors', '3', '--stages', '1', '--replicas', '1', '--chaos', chaos, '--report', report],
  );
  expectNearGolden(metrics);
  const { rollbacks, chaos: fired } = JSON.parse(readFileSync(report, 'utf8'));
  expect(rollbacks).toEqual([]);
  for (const { entry, firedAtStep } of fired) expect(firedAtStep, entry).not.toBeNull();
});

const SOUGHT = ['plans that are sought', 'gpt2-tiny', ['--schedule', 'auto', ...SMALL]] as const;
const GROUPS = [
  'two groups of two lanes each, with an island each',
  'islands-f32',
  ['--donors', '4', '--stages', '1', '--replicas', '0'],
] as const;

test.each(process.env.SHOAL_LONG === '1' ? [SOUGHT, GROUPS] : [SOUGHT])(
  '[WI30] [WI34] %s: near the golden curve, and nothing is lost',
  async (_name, golden, options) => {
    const report = join(temporaryFolder(), 'report.json');
    const path = run(golden);
    const { metrics } = await runSwarm(path, ...options, '--report', report);
    expectNearGolden(metrics, goldenLines(golden));
    for (const { bytesDirect } of metrics) expect(bytesDirect).toBeGreaterThan(0);
    // What a round begins with goes as floats: of a step in its middle only codes are sent.
    const least = Math.min(...metrics.map(({ bytesDirect }) => bytesDirect));
    if (golden === 'islands-f32') expect(least).toBeLessThanOrEqual(0.3 * floatBytes(path));
    const { rollbacks } = JSON.parse(readFileSync(report, 'utf8'));
    expect(rollbacks).toEqual([]);
  },
);
