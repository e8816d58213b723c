/**
 * As many islands as there are donors, unequal ones: what they did is recorded, and a float64 trainer of one process that does
 * the recorded rounds again comes to the same losses.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseRunFile } from '../swarm/run/runFile.ts';
import { IslandReference } from '../swarm/testing/islandReference.ts';
import { readTensors } from './fidelity.ts';
import { beside, copyOfRun, runSwarm } from './product.ts';

/** At this number a round has one step, so that there are as many rounds as steps however fast anybody is. */
const STEPS = 24;
/**
 * Who does which step is another each time, and at the golden run's rate there are rounds in which one rounding of the weights
 * changes a loss by more than 1e-5 (islandTraining.test.ts): at a third of it float32 is float64 to far below the bound.
 */
const RATE = 0.001;
const BOUND = 1e-5;

type Case = readonly [donors: string, speeds: readonly number[]];
const TWO: Case = ['two', [1, 0.4]];
/** So slow that two cores do them all. */
const FOUR: Case = ['four', [0.5, 0.3, 0.2, 0.1]];

test.each(process.env.SHOAL_LONG === '1' ? [TWO, FOUR] : [TWO])(
  '[IS65] [IS68] [IS69] %s unequal donors do as many steps as they can, and the recorded rounds give their losses',
  async (_name, speeds) => {
    const path = copyOfRun('islands-f32', (run) => {
      const train = run.train as Record<string, unknown>;
      const islands = { count: 'auto', roundSeconds: 2, exchange: 'f32', publish: 'f32' };
      const optimizer = { ...(train.optimizer as Record<string, unknown>), learningRate: RATE };
      return { ...run, checkpoint: { everySteps: 15 }, train: { ...train, optimizer, steps: STEPS, islands } };
    });
    const { metrics } = await runSwarm(path, ...speeds.flatMap((speed) => ['--donor', `speed=${speed}`]));
    const parsed = parseRunFile(JSON.parse(readFileSync(path, 'utf8')), path);
    if (!parsed.ok) throw new Error(parsed.reason);
    const run = parsed.value;
    const lines = metrics as readonly Record<'step' | 'loss' | 'island' | 'round' | 'innerStep', number>[];
    expect(lines.map(({ step }) => step).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: STEPS }, (_, number) => number),
    );
    const rounds = new Map<number, (typeof lines)[number][]>();
    for (const line of lines) rounds.set(line.round, [...(rounds.get(line.round) ?? []), line]);
    expect(rounds.size).toBe(STEPS);
    // A slow one may never come to its turn, and on a machine that stalls one may begin anew, as another island.
    const count = Math.max(...lines.map(({ island }) => island)) + 1;

    const initial = readTensors(beside(path, String(run.init)));
    const text = readFileSync(beside(path, '../gpt2-tiny/corpus.txt'));
    const reference = new IslandReference(run, initial, text, count);
    for (const [, own] of [...rounds].toSorted(([a], [b]) => a - b)) {
      for (const { step, island, loss } of own.toSorted((a, b) => a.innerStep - b.innerStep))
        expect(Math.abs(loss / reference.step(island, step).loss - 1), `loss of step ${step}`).toBeLessThan(BOUND);
      reference.meet();
    }
  },
);
