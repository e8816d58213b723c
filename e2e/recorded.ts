/** The rounds that a run with as many islands as groups recorded, done again by a float64 trainer of one process. */
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { IslandReference } from '../swarm/testing/islandReference.ts';
import { readTensors } from './fidelity.ts';
import { beside, runFileAt } from './product.ts';

export type RecordedLine = Record<'step' | 'loss' | 'island' | 'round' | 'innerStep', number>;

/** Of every step one line, and the trainer that does the recorded rounds comes to its loss, to so much of it. */
export function expectRecorded(
  path: string,
  lines: readonly RecordedLine[],
  bound: number,
): ReadonlyMap<number, readonly RecordedLine[]> {
  const run = runFileAt(path);
  expect(lines.map(({ step }) => step).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: run.train.steps }, (_, number) => number),
  );
  const rounds = new Map<number, RecordedLine[]>();
  for (const line of lines) rounds.set(line.round, [...(rounds.get(line.round) ?? []), line]);
  const initial = readTensors(beside(path, String(run.init)));
  const text = readFileSync(beside(path, '../gpt2-tiny/corpus.txt'));
  const reference = new IslandReference(run, initial, text, 0);
  for (const [, own] of [...rounds].toSorted(([a], [b]) => a - b)) {
    for (const { step, island, loss } of own.toSorted((a, b) => a.innerStep - b.innerStep)) {
      if (!reference.has(island)) reference.begin(island);
      expect(Math.abs(loss / reference.step(island, step).loss - 1), `loss of step ${step}`).toBeLessThan(bound);
    }
    reference.meet();
  }
  return rounds;
}
