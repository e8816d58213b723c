/**
 * What saves memory, in real tabs, to the golden curve: the optimizer's state in main memory, and layers gathered by those who
 * compute with them (ZeRO's third stage), as a plan file asks for it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { peerId } from '../swarm/base.ts';
import { predictedBytes } from '../swarm/memory/memory.ts';
import { equalSplit } from '../swarm/planner/equalSplit.ts';
import { modelOf } from '../swarm/run/runFile.ts';
import { curveFaults } from './fidelity.ts';
import { goldenFile, runFileAt, runSwarm, shoal, temporaryFolder } from './product.ts';

const STEPS = 6;
/** A third of the 5.4 MB that it takes alone, one micro-batch at a time. */
const MEMORY_KIB = 1_750;
const DONORS = 4;

test.each([
  ['once a micro-batch', '1f1b', {}],
  ['once for all of a pass', 'gpipe', { layered: true }],
] as const)(
  '[PL18] [PL42] [PL64] two donors that gather their layers one at a time, %s: the golden curve',
  async (_, schedule, how) => {
    const [planFile, report] = ['plan.json', 'report.json'].map((name) => join(temporaryFolder(), name)) as [
      string,
      string,
    ];
    const run = goldenFile('gpt2-tiny/run.json');
    const parsed = runFileAt(run);
    const { globalBatchSize, sequenceLength } = parsed.train;
    const model = modelOf(parsed);
    const donors = ['a', 'b'].map(peerId);
    const whole = equalSplit(model, globalBatchSize, donors, { stages: 1, microBatches: 4, schedule });
    const plan = { ...whole, stages: whole.stages.map((stage) => ({ ...stage, gathered: 1 as const, ...how })) };
    writeFileSync(planFile, JSON.stringify(plan));
    const { metrics } = await runSwarm(
      run,
      ...['--donors', '2', '--plan', planFile, '--steps', String(STEPS), '--report', report],
    );
    expect(curveFaults('gpt2-tiny', STEPS, metrics)).toEqual([]);
    const { memory } = JSON.parse(readFileSync(report, 'utf8'));
    expect(memory).toHaveLength(2);
    for (const [place, { peakBytes }] of memory.entries()) {
      const donor = donors[place] ?? peerId('');
      expect(peakBytes).toBe(predictedBytes(model, plan, donor, sequenceLength));
      expect(peakBytes).toBeLessThan(predictedBytes(model, whole, donor, sequenceLength));
    }
  },
);

test('[PL40] [PL41] [ST21] a model that no plan holds on these GPUs trains with its optimizer in main memory', async () => {
  const report = join(temporaryFolder(), 'report.json');
  const run = goldenFile('gpt2-tiny/run.json');
  const donors = (more: string) =>
    Array.from({ length: DONORS }, () => ['--donor', `memory=${MEMORY_KIB}KiB${more}`]).flat();
  const refused = await shoal('swarm', run, ...donors(''), '--steps', '2');
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('of memory is missing');
  const { metrics } = await runSwarm(run, ...donors(',host=8MiB'), '--steps', String(STEPS), '--report', report);
  expect(curveFaults('gpt2-tiny', STEPS, metrics)).toEqual([]);
  const { memory } = JSON.parse(readFileSync(report, 'utf8'));
  expect(memory).toHaveLength(DONORS);
  for (const { predictedBytes, peakBytes, hostBytes } of memory) {
    expect(peakBytes).toBe(predictedBytes);
    expect(peakBytes).toBeLessThanOrEqual(MEMORY_KIB * 1024);
    expect(hostBytes).toBeGreaterThan(100_000);
  }
});
