/** Work that is done again: who lies plausibly is convicted, the run is as if nothing had been, and nobody honest is doubted. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { curveFaults, weightFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, isSeldomDue, runSwarm, temporaryFolder } from './product.ts';

interface Report {
  readonly refused: readonly object[];
  readonly rollbacks: readonly { readonly reason: string }[];
  readonly convictions: readonly {
    readonly donor: number;
    readonly item: { readonly step: number };
    readonly firstStep: number;
    readonly evidence: string;
  }[];
}

/** gpt2-tiny: within the oracle's bounds at every step, and replayed. */
async function audited(share: number, ...options: string[]): Promise<Report> {
  const run = copyOfRun('gpt2-tiny', (file) => ({ ...file, checkpoint: { everySteps: 3 } }));
  const folder = temporaryFolder();
  const [report, record, exported] = ['report.json', 'record.jsonl', 'export'].map((name) => join(folder, name));
  const files = ['--report', report, '--record', record, '--export', exported].map(String);
  const { metrics } = await runSwarm(run, '--audit', String(share), ...options, ...files);
  await expectReplayed(String(record));
  expect(curveFaults('gpt2-tiny', 20, metrics)).toEqual([]);
  expect(weightFaults('gpt2-tiny', String(exported))).toEqual([]);
  return JSON.parse(readFileSync(String(report), 'utf8'));
}

/** It alone, for what it did from that step on; the run went back, and nobody else was doubted. */
function expectConvicted({ refused, rollbacks, convictions }: Report, donor: number, fromStep: number): void {
  expect(refused).toEqual([]);
  expect(convictions.map((one) => one.donor)).toEqual([donor]);
  // Where the machine is busy a donor may be lost too, and the run go back for that.
  expect(rollbacks.filter(({ reason }) => /computed was wrong/.test(reason)).length).toBe(1);
  for (const { item, firstStep, evidence } of convictions) {
    expect(item.step).toBeGreaterThanOrEqual(fromStep);
    expect(firstStep).toBeLessThanOrEqual(item.step);
    expect(evidence).toMatch(/of its size off what float64 makes of the same input/);
  }
}

test('of four donors in two lanes one adds noise of 1 %: it is convicted, and the curve does not notice', async () => {
  expectConvicted(await audited(0.25, '--donors', '4', '--stages', '2', '--chaos', 'lie:1@2'), 1, 2);
});

test.runIf(isSeldomDue)(
  'of three donors, each a stage, one answers with the step before: it is convicted',
  async () => {
    expectConvicted(await audited(0.25, '--donors', '3', '--chaos', 'stale:1@2'), 1, 2);
  },
);

test.runIf(isSeldomDue)('nobody honest is doubted where all work is done again', async () => {
  const { refused, rollbacks, convictions } = await audited(1, '--donors', '3');
  expect({ refused, rollbacks, convictions }).toEqual({ refused: [], rollbacks: [], convictions: [] });
});
