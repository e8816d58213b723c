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

/** So many steps are golden. */
const GOLDEN = { 'gpt2-tiny': 20, 'islands-f32': 40 } as const;

const audited = (share: number, ...options: string[]): Promise<Report> => auditedRun('gpt2-tiny', share, ...options);

/** Within the oracle's bounds at every step, and replayed. */
async function auditedRun(name: keyof typeof GOLDEN, share: number, ...options: string[]): Promise<Report> {
  const run = copyOfRun(name, (file) => ({ ...file, checkpoint: { everySteps: 3 } }));
  const folder = temporaryFolder();
  const [report, record, exported] = ['report.json', 'record.jsonl', 'export'].map((one) => join(folder, one));
  const files = ['--report', report, '--record', record, '--export', exported].map(String);
  const { metrics } = await runSwarm(run, '--audit', String(share), ...options, ...files);
  await expectReplayed(String(record));
  expect(curveFaults(name, GOLDEN[name], metrics)).toEqual([]);
  expect(weightFaults(name, String(exported))).toEqual([]);
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

test.runIf(isSeldomDue).each([
  ['two groups', 'lie:1@2'],
  ['turns', 'stale:1@2', '--stages', '4'],
])('of four donors who do two islands by %s one lies: it is convicted, and all go back', async (_, ...script) => {
  expectConvicted(await auditedRun('islands-f32', 0.25, '--donors', '4', '--chaos', ...script), 1, 2);
});

test.runIf(isSeldomDue)('nobody honest is doubted where all work is done again', async () => {
  const { refused, rollbacks, convictions } = await audited(1, '--donors', '3');
  expect({ refused, rollbacks, convictions }).toEqual({ refused: [], rollbacks: [], convictions: [] });
});
