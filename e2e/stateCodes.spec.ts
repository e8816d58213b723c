/** Gradient sums and values as int8 codes: real tabs, near the golden curve, whoever comes and goes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { copyOfRun, goldenFile, jsonLines, runSwarm, temporaryFolder } from './product.ts';

function expectNearGolden(metrics: readonly { readonly loss: number }[]): void {
  const expected = jsonLines(goldenFile('gpt2-tiny/expected.jsonl')) as CommitRecord[];
  expect(metrics).toHaveLength(expected.length);
  for (const [step, { loss }] of expected.entries())
    expect(Math.abs((metrics[step]?.loss ?? Number.NaN) / loss - 1), `step ${step}`).toBeLessThan(1e-2);
}

test('[WI34] [WI36] with replicas a kill, a join and a server that dies cost no committed step', async () => {
  const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, precision: { state: 'int8' } }));
  const report = join(temporaryFolder(), 'report.json');
  const chaos = 'kill:1@4,join@7,server-kill@12';
  const { metrics } = await runSwarm(
    ...[run, '--donors', '3', '--stages', '1', '--replicas', '1', '--chaos', chaos, '--report', report],
  );
  expectNearGolden(metrics);
  const { rollbacks, chaos: fired } = JSON.parse(readFileSync(report, 'utf8'));
  expect(rollbacks).toEqual([]);
  for (const { entry, firedAtStep } of fired) expect(firedAtStep, entry).not.toBeNull();
});
