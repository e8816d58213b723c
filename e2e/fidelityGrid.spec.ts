/**
 * Swarms of every shape, against the oracle: one case of each kind in the long lane, the whole grid with SHOAL_GRID=all
 * (`SHOAL_GRID=all npx vitest run --project e2e e2e/fidelityGrid.spec.ts`: an hour on two cores). On Dawn without tabs every
 * schedule is trained at every change, and some of the random plans, in the long lane all (gridPlans.gpu.test.ts).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { at } from '../swarm/base.ts';
import { hostBytes } from '../swarm/memory/memory.ts';
import { peers } from '../swarm/plan/plan.ts';
import { isLayered, WAYS, waysOf } from '../swarm/testing/gridPlans.ts';
import { curveFaults, weightFaults } from './fidelity.ts';
import { factsOf, type GridCase, optionsOf, SOME, wholeGrid } from './fidelityGrid.ts';
import { goldenFile, isSeldomDue, runSwarm, type Swarm, temporaryFolder } from './product.ts';
import { isOverServers } from './twoServers.ts';

const isWhole = process.env.SHOAL_GRID === 'all';
/** Of the repetition. */
const SOME_STEPS = 5;

/** The whole grid repeats everything but what follows messages; else those of no shape of two donors do it. */
const isRepeated = ({ plan, donors, options }: GridCase): boolean =>
  isWhole ? !options.includes('eager') && !options.includes('varuna') : plan !== null && donors === 2;

const each = ({ metrics }: Swarm, field: keyof Swarm['metrics'][number]) => [
  ...new Set(metrics.map((line) => line[field])),
];

const digits = ({ metrics }: Swarm, steps: number) =>
  metrics.slice(0, steps).map(({ loss, gradientNorm }) => [loss, gradientNorm]);

async function expectFidelity(grid: GridCase): Promise<void> {
  const folder = temporaryFolder();
  const { steps, tokens } = factsOf(grid.run);
  const report = join(folder, 'report.json');
  const options = optionsOf(grid, folder);
  const runFile = goldenFile(`${grid.run}/run.json`);
  const exported = join(folder, 'export');
  const swarm = await runSwarm(runFile, ...options, '--export', exported, '--report', report);
  expect(curveFaults(grid.run, steps, swarm.metrics)).toEqual([]);
  expect(weightFaults(grid.run, exported)).toEqual([]);
  expect(each(swarm, 'stages')).toEqual([grid.stages]);
  expect(each(swarm, 'donors')).toEqual([grid.computing]);
  expect(each(swarm, 'tokens')).toEqual([tokens]);
  // Tensors go from tab to tab, at every step, and never through the server.
  expect(each(swarm, 'bytesRelayed')).toEqual([0]);
  if (grid.donors > 1) expect(each(swarm, 'bytesDirect')).not.toContain(0);
  const { rollbacks, memory } = JSON.parse(readFileSync(report, 'utf8'));
  expect(rollbacks).toEqual([]);
  expect(memory).toHaveLength(grid.donors);
  for (const { donor, predictedBytes, peakBytes, hostBytes: inHost } of memory) {
    expect(peakBytes).toBeLessThanOrEqual(1.2 * predictedBytes);
    if (grid.plan) expect(inHost).toBe(hostBytes(grid.plan, at(peers(grid.plan), donor), undefined));
  }
  if (!isRepeated(grid)) return;
  const again = await runSwarm(runFile, ...options, '--steps', String(SOME_STEPS));
  expect(digits(again, SOME_STEPS)).toEqual(digits(swarm, SOME_STEPS));
}

test('the random plans of the whole grid have everything in them, and some have all of it at once', () => {
  const plans = wholeGrid().flatMap(({ plan }) => plan ?? []);
  for (const way of WAYS) expect(plans.filter((plan) => waysOf(plan).includes(way)).length, way).toBeGreaterThan(5);
  expect(plans.filter((plan) => waysOf(plan).length === WAYS.length).length).toBeGreaterThan(0);
  expect(SOME.some(({ plan }) => plan && waysOf(plan).length === WAYS.length)).toBe(true);
  // Several micro-batches of a donor go through a block while it is there, which others have a part of.
  const layered = plans.filter(isLayered);
  expect(layered.length).toBeGreaterThan(3);
  for (const { stages } of layered) {
    const carried = stages.flatMap(({ members }) => members.map(({ microBatches }) => microBatches.length));
    expect([carried.length > 1, Math.max(...carried) > 1]).toEqual([true, true]);
  }
  expect(SOME.some(({ plan }) => plan && isLayered(plan))).toBe(true);
});

/** By several servers one is enough. */
const few = SOME.filter(({ plan }) => !isOverServers || (plan && isLayered(plan)));

describe.runIf(isWhole || isSeldomDue)('fidelity', () => {
  const grid = isWhole ? wholeGrid() : few;
  test.each(grid.map((one) => [one.name, one] as const))('%s', (_, one) => expectFidelity(one));
});
