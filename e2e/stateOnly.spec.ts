/** State apart from work: who computes nothing keeps it, and neither its loss nor that of who computes costs a step. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { peerId } from '../swarm/base.ts';
import { equalSplit } from '../swarm/planner/equalSplit.ts';
import { modelOf } from '../swarm/run/runFile.ts';
import { curveFaults, weightFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, runFileAt, runSwarm, temporaryFolder } from './product.ts';

const STEPS = 20;

test('[RE60] [RE20] one computes and two keep all of the state: the primary is killed, then who computes, and no step is given up', async () => {
  // Nothing to go back to but the initial state.
  const path = copyOfRun('gpt2-tiny', (file) => ({ ...file, checkpoint: { everySteps: STEPS } }));
  const run = runFileAt(path);
  const alone = { stages: 1, microBatches: 2, schedule: '1f1b' } as const;
  const whole = equalSplit(modelOf(run), run.train.globalBatchSize, [peerId('a')], alone);
  const state = whole.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => ({ ...shard, peer: peerId('b'), replicas: [peerId('c')] })),
  }));
  const folder = temporaryFolder();
  const file = (name: string): string => join(folder, name);
  writeFileSync(file('plan.json'), JSON.stringify({ ...whole, state }));
  const { metrics } = await runSwarm(
    path,
    ...['--donors', '3', '--plan', file('plan.json'), '--replicas', '1', '--chaos', 'kill:1@6,kill:0@12'],
    ...['--report', file('report.json'), '--record', file('record.jsonl'), '--export', file('export')],
  );
  expect(curveFaults('gpt2-tiny', STEPS, metrics)).toEqual([]);
  expect(weightFaults('gpt2-tiny', file('export'))).toEqual([]);
  expect(metrics[0]).toMatchObject({ donors: 1, stages: 1 });
  const report = JSON.parse(readFileSync(file('report.json'), 'utf8'));
  expect(report).toMatchObject({ rollbacks: [], refused: [] });
  expect(report.chaos.map(({ firedAtStep }: { firedAtStep: number | null }) => firedAtStep)).not.toContain(null);
  for (const { stepsGivenUp } of report.faults) expect(stepsGivenUp).toBe(0);
  await expectReplayed(file('record.jsonl'));
});
