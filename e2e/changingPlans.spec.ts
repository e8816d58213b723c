/**
 * Under each schedule, and with the state in each place, in real tabs: one donor is killed, another one comes, one leaves by
 * its button, and the curve is the oracle's. One of each kind at every change, all of them in the long lane.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { modelOf } from '../swarm/run/runFile.ts';
import { donors } from '../swarm/testing/randomPlan.ts';
import {
  allAtOnce,
  gatheredPlan,
  keeperPlan,
  layeredPlan,
  mainMemoryPlan,
  type StatePlan,
} from '../swarm/testing/statePlans.ts';
import { curveFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, runFileAt, runSwarm, temporaryFolder, withSteps } from './product.ts';

const RUN = 'gpt2-long';
/** Enough after the last change that it is over long before, however slow the machine: it makes steps slower too. */
const STEPS = 32;
const DONORS = 4;
const LAST_STEPS = 6;
/** Those who are opened first give some; who comes later gives none, and has the last place. */
const HOST = Array.from({ length: DONORS }, () => ['--donor', 'host=8MiB']);

interface Case {
  readonly name: string;
  readonly options: (runFile: string) => readonly string[];
  readonly donors: number;
  /** Where who is lost leaves an odd number. */
  readonly atEnd: number;
  /** What donors tell of the last steps, as of the first: by the ends of spans' names. */
  readonly does: readonly string[];
  readonly inCi?: true;
}

const scheduled = (donors: number, atEnd: number, ...schedule: readonly string[]): Case => ({
  name: `${schedule.join(' ')} of ${donors}`,
  ...{ donors, atEnd, does: [] },
  options: () => ['--donors', String(donors), '--replicas', '1', '--schedule', ...schedule],
});

const placed = (name: string, make: StatePlan, ...does: readonly string[]): Case => ({
  ...{ name, donors: DONORS, atEnd: DONORS - 1, does },
  options: (runFile) => {
    const run = runFileAt(runFile);
    const path = join(temporaryFolder(), 'plan.json');
    writeFileSync(path, JSON.stringify(make(modelOf(run), run.train.globalBatchSize, donors(DONORS))));
    return ['--plan', path, ...HOST.flat()];
  },
});

const GATHERS = 'GATHER_F';
const IN_MEMORY = 'UPDATE_HOST';

/** Names of spans that donors told of the last steps, without micro-batches; and of one step how many were awaited at most. */
function lastSpans(record: string): { readonly names: ReadonlySet<string>; readonly mostGathered: number } {
  const names = new Set<string>();
  let mostGathered = 0;
  for (const line of readFileSync(record, 'utf8').trim().split('\n')) {
    const { message } = JSON.parse(line).event;
    if (message?.type !== 'report' || message.step < STEPS - LAST_STEPS) continue;
    const spans: string[] = [...message.spans, ...(message.behind?.spans ?? [])].map(({ action }) => action);
    for (const span of spans) names.add(span.replace(/^\d+|\d+$/g, ''));
    mostGathered = Math.max(mostGathered, new Set(spans.filter((span) => span.includes(GATHERS))).size);
  }
  return { names, mostGathered };
}

const CASES: readonly Case[] = [
  { ...placed('gathered, in main memory and state alone', allAtOnce, GATHERS, IN_MEMORY), inCi: true },
  scheduled(4, 2, 'chimera'),
  scheduled(2, 1, 'interleaved', '--chunks', '2'),
  scheduled(2, 1, 'breadth-first', '--chunks', '2'),
  scheduled(4, 3, '1f1b', '--warmup', 'overlap'),
  scheduled(4, 3, 'eager'),
  scheduled(4, 3, 'varuna'),
  placed('gathered', gatheredPlan, GATHERS),
  placed('gathered once a pass', layeredPlan, GATHERS),
  placed('main memory', mainMemoryPlan, IN_MEMORY),
  placed('state alone', keeperPlan),
];

test.each(CASES.filter(({ inCi }) => inCi || process.env.SHOAL_LONG === '1').map((one) => [one.name, one] as const))(
  '[ST1] [RE20] [PL51] %s: one is killed, one comes, one leaves, and the curve does not notice',
  async (name, { options, donors: count, atEnd, does }) => {
    const run = copyOfRun(RUN, withSteps(STEPS));
    const folder = temporaryFolder();
    const [report, record] = [join(folder, 'report.json'), join(folder, 'record.jsonl')];
    // Where two are left nobody but the newcomer is there to leave.
    const script = `kill:1@3,join@6,leave:${count === 2 ? 2 : 0}@10`;
    const { metrics } = await runSwarm(
      run,
      ...options(run),
      ...['--chaos', script, '--report', report, '--record', record],
    );
    expect(curveFaults(RUN, STEPS, metrics)).toEqual([]);
    const { chaos, rollbacks, refused, faults } = JSON.parse(readFileSync(report, 'utf8'));
    expect({ rollbacks, refused }).toEqual({ rollbacks: [], refused: [] });
    expect(chaos.map(({ firedAtStep }: { firedAtStep: number | null }) => firedAtStep)).not.toContain(null);
    for (const { stepsGivenUp } of faults) expect(stepsGivenUp).toBe(0);
    // The first plan, without who was killed, with the newcomer, without who left.
    expect(metrics.at(-1)).toMatchObject({ donors: atEnd, plan: expect.toSatisfy((plan: number) => plan >= 4) });
    const { names, mostGathered } = lastSpans(record);
    expect([...names]).toEqual(expect.arrayContaining([...does]));
    // Once for all micro-batches of a pass, whichever the first is.
    if (name.includes('once a pass')) expect(mostGathered).toBe(1);
    await expectReplayed(record);
  },
);
