/** `--schedule auto`: whatever plans it makes of what the donors measured, the loss curve does not notice. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curveFaults, weightFaults } from './fidelity.ts';
import { copyOfRun, runSwarm, temporaryFolder } from './product.ts';

/** Slow enough that two of them are faster than one; the one that joins is many times as fast. */
const SLOW = ['--donor', 'speed=0.15', '--donor', 'speed=0.15'];

test('[AP2] two slow donors, one of which is killed, then a fast one joins: within the bounds at every step', async () => {
  const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, checkpoint: { everySteps: 3 } }));
  const folder = temporaryFolder();
  const [weights, report] = [join(folder, 'export'), join(folder, 'report.json')];
  const options = ['--schedule', 'auto', ...SLOW, '--chaos', 'kill:1@3,join@5', '--report', report];
  const { metrics } = await runSwarm(run, ...options, '--export', weights);
  expect(curveFaults('gpt2-tiny', 20, metrics)).toEqual([]);
  expect(weightFaults('gpt2-tiny', weights)).toEqual([]);
  const { chaos, rollbacks } = JSON.parse(readFileSync(report, 'utf8'));
  for (const { entry, firedAtStep } of chaos) expect(firedAtStep, entry).not.toBeNull();
  expect(rollbacks.length).toBeLessThanOrEqual(1);
});
