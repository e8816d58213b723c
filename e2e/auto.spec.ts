/** `--schedule auto`: whatever plans it makes of what the donors measured, the loss curve does not notice. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curveFaults, weightFaults } from './fidelity.ts';
import { copyOfRun, runSwarm, temporaryFolder } from './product.ts';

/** None of them holds the model alone; two do, with layers computed again; the one that joins does by itself. */
const SMALL = Array.from({ length: 3 }, () => ['--donor', 'memory=4MiB']).flat();

test('[AP2] one of three small donors is killed, then a large one joins: within the bounds at every step', async () => {
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
