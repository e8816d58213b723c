/** State in main memory: what two donors' GPUs have no room for trains in real tabs, to the golden curve. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curveFaults } from './fidelity.ts';
import { goldenFile, runSwarm, shoal, temporaryFolder } from './product.ts';

const STEPS = 6;
const MEMORY_KIB = 2_900;

test('[PL40] [PL41] [ST21] a model that no plan holds on these GPUs trains with its optimizer in main memory', async () => {
  const report = join(temporaryFolder(), 'report.json');
  const run = goldenFile('gpt2-tiny/run.json');
  const donor = (more: string) => ['--donor', `memory=${MEMORY_KIB}KiB${more}`];
  const refused = await shoal('swarm', run, ...donor(''), ...donor(''), '--steps', '2');
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('bytes are missing');
  const both = [...donor(',host=8MiB'), ...donor(',host=8MiB')];
  const { metrics } = await runSwarm(run, ...both, '--steps', String(STEPS), '--report', report);
  expect(curveFaults('gpt2-tiny', STEPS, metrics)).toEqual([]);
  const { memory } = JSON.parse(readFileSync(report, 'utf8'));
  expect(memory).toHaveLength(2);
  for (const { predictedBytes, peakBytes, hostBytes } of memory) {
    expect(peakBytes).toBe(predictedBytes);
    expect(peakBytes).toBeLessThanOrEqual(MEMORY_KIB * 1024);
    expect(hostBytes).toBeGreaterThan(100_000);
  }
});
