/**
 * Honest runs that do what hardly any run does: a text of dashes that is learned by heart before verse begins, one that is
 * the same letter throughout. Their losses come from `oracle.py train … --double`, an independent trainer in float64.
 */
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Line } from './fidelity.ts';
import { copyOfRun, goldenFile, type Json, jsonLines, runSwarm, temporaryFolder } from './product.ts';

/** Relative, or absolute where the loss is below 1: float32 gives no more. */
const LOSS_BOUND = 2e-6;

const CASES = {
  dashes: {},
  repeats: { files: ['repeats.txt'], steps: 40, learningRate: 0.03 },
  islands: { islands: { count: 2, innerSteps: 5, exchange: 'f32' } },
} as const;

interface Changes {
  readonly files?: readonly string[];
  readonly steps?: number;
  readonly learningRate?: number;
  readonly islands?: Json;
}

/** Trains it to its end: each step once, none given up, at the trainer's losses. */
export async function expectUnusual(name: keyof typeof CASES, ...options: string[]): Promise<void> {
  const { files, steps, learningRate, islands }: Changes = CASES[name];
  const path = copyOfRun('unusual', (run) => {
    const train = run.train as Json;
    const optimizer = { ...(train.optimizer as Json), ...(learningRate && { learningRate }) };
    return {
      ...run,
      data: { ...(run.data as Json), ...(files && { files }) },
      train: { ...train, optimizer, ...(steps && { steps }), ...(islands && { islands }) },
    };
  });
  const report = join(temporaryFolder(), 'report.json');
  const { metrics } = await runSwarm(path, ...options, '--report', report);
  const expected = jsonLines(goldenFile(`unusual/${name}.jsonl`)) as Line[];
  const where = ({ step, island, round }: Line) => ({ step, island, round });
  expect((metrics as Line[]).map(where)).toEqual(expected.map(where));
  const far = expected.filter(({ loss }, step) => {
    const distance = Math.abs((metrics[step]?.loss ?? Number.NaN) - loss);
    return !(distance <= LOSS_BOUND * Math.max(1, loss));
  });
  expect(far).toEqual([]);
  expect(jsonLines(report)).toMatchObject([{ rollbacks: [], refused: [] }]);
}
