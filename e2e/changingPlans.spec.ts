/**
 * The state in every place that a plan may put it, in real tabs: one donor is killed, another one comes, one leaves by its
 * button, and the curve is the oracle's. By every schedule and place the simulation does the same in exact integers
 * (web/src/testing/simulation/schedules.test.ts).
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { modelOf } from '../swarm/run/runFile.ts';
import { donors } from '../swarm/testing/randomPlan.ts';
import { allAtOnce } from '../swarm/testing/statePlans.ts';
import { curveFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, runFileAt, runSwarm, temporaryFolder, withSteps } from './product.ts';

const RUN = 'gpt2-long';
/** Enough after the last change that it is over long before, however slow the machine: it makes steps slower too. */
const STEPS = 32;
const DONORS = 4;
const LAST_STEPS = 6;
/** Those who are opened first give some; who comes later gives none, and has the last place. */
const HOST = Array.from({ length: DONORS }, () => ['--donor', 'host=8MiB']).flat();
const CHAOS = 'kill:1@3,join@6,leave:0@10';

/** Names of spans that donors told of the last steps, without micro-batches. */
function lastSpans(record: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const line of readFileSync(record, 'utf8').trim().split('\n')) {
    const { message } = JSON.parse(line).event;
    if (message?.type !== 'report' || message.step < STEPS - LAST_STEPS) continue;
    for (const { action } of [...message.spans, ...(message.behind?.spans ?? [])])
      names.add(action.replace(/^\d+|\d+$/g, ''));
  }
  return names;
}

test('[ST1] [RE20] gathered, in main memory and state alone: one is killed, one comes, one leaves, and the curve does not notice', async () => {
  const path = copyOfRun(RUN, withSteps(STEPS));
  const run = runFileAt(path);
  const folder = temporaryFolder();
  const [plan, report, record] = [join(folder, 'plan.json'), join(folder, 'report.json'), join(folder, 'record.jsonl')];
  writeFileSync(plan, JSON.stringify(allAtOnce(modelOf(run), run.train.globalBatchSize, donors(DONORS))));
  const { metrics } = await runSwarm(
    path,
    ...['--plan', plan, ...HOST, '--chaos', CHAOS, '--report', report, '--record', record],
  );
  expect(curveFaults(RUN, STEPS, metrics)).toEqual([]);
  const { chaos, rollbacks, refused, faults } = JSON.parse(readFileSync(report, 'utf8'));
  expect({ rollbacks, refused }).toEqual({ rollbacks: [], refused: [] });
  expect(chaos.map(({ firedAtStep }: { firedAtStep: number | null }) => firedAtStep)).not.toContain(null);
  for (const { stepsGivenUp } of faults) expect(stepsGivenUp).toBe(0);
  // The first plan, without who was killed, with the newcomer, without who left.
  expect(metrics.at(-1)).toMatchObject({
    donors: DONORS - 1,
    plan: expect.toSatisfy((number: number) => number >= 4),
  });
  expect([...lastSpans(record)]).toEqual(expect.arrayContaining(['GATHER_F', 'UPDATE_HOST']));
  await expectReplayed(record);
});
