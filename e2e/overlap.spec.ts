/**
 * Islands that begin their next round while the meeting is under way: a float64 trainer of one process that takes in what came
 * of each meeting where the metrics say it was comes to the same losses.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { at } from '../swarm/base.ts';
import { IslandReference } from '../swarm/testing/islandReference.ts';
import { type Line, readTensors } from './fidelity.ts';
import { beside, copyOfRun, type Json, runFileAt, runSwarm, temporaryFolder } from './product.ts';

/** When what came of a meeting is there is another step each time: at this rate float32 is far closer (recordedRounds.spec.ts). */
const RATE = 0.001;
const BOUND = 1e-5;
const STEPS = 24;
const OUTER = { outer: { learningRate: 1, momentum: 0.5 } };

const overlapping = (islands: Json) =>
  copyOfRun('islands-f32', (run) => {
    const train = run.train as Json;
    const settings = { ...islands, ...OUTER, exchange: 'f32', publish: 'f32', overlap: true };
    const optimizer = { ...(train.optimizer as Json), learningRate: RATE };
    return { ...run, checkpoint: { everySteps: 100 }, train: { ...train, optimizer, steps: STEPS, islands: settings } };
  });

test.each([
  ['two islands of four steps', { count: 2, innerSteps: 4 }],
  ['as many islands as donors', { count: 'auto', roundSeconds: 2 }],
])('[IS80] [IS81] [IS84] %s: the losses of a float64 trainer', async (_name, islands) => {
  const path = overlapping(islands);
  const { metrics } = await runSwarm(path, '--donor', 'speed=1', '--donor', 'speed=0.5');
  const lines = metrics as readonly Required<Line>[];
  expectLossesOf(path, lines);
  // All but the end is met about beside the next round: its first step is begun before anybody has heard of it.
  for (let round = 1; round <= Math.max(...lines.map((line) => line.round)); round++) {
    const own = lines.filter((line) => line.round === round).toSorted((a, b) => a.innerStep - b.innerStep);
    expect(at(own, 0).tookIn, `in round ${round}`).toBe(round - 1);
  }
});

test('[IS83] a donor is killed while its island meets: who has the other copy meets in its place, and nothing is lost', async () => {
  const path = overlapping({ count: 2, innerSteps: 4 });
  const report = join(temporaryFolder(), 'report.json');
  // The second donor is alone in its group: its line carries nothing but the meetings, for seconds each.
  const donors = ['--donor', 'speed=1', '--donor', 'upload=300kB/s', '--donor', 'speed=1'];
  const { metrics, stderr } = await runSwarm(
    ...[path, ...donors, '--replicas', '1', '--chaos', 'kill:0@10', '--report', report],
  );
  // It was under way when the server heard of the loss.
  expect(stderr).toContain('The meeting after round 0 is begun again without who left it.');
  expect(JSON.parse(readFileSync(report, 'utf8')).rollbacks).toEqual([]);
  expectLossesOf(path, metrics as readonly Required<Line>[]);
});

/** Each line's loss is what the float64 trainer comes to. */
function expectLossesOf(path: string, lines: readonly Required<Line>[]): void {
  const run = runFileAt(path);
  expect(lines.map(({ step }) => step)).toEqual(Array.from({ length: STEPS }, (_, number) => number));
  const count = Math.max(...lines.map(({ island }) => island)) + 1;
  const rounds = Math.max(...lines.map(({ round }) => round)) + 1;

  const initial = readTensors(beside(path, String(run.init)));
  const text = readFileSync(beside(path, '../gpt2-tiny/corpus.txt'));
  const reference = new IslandReference(run, initial, text, count);
  for (let round = 0; round < rounds; round++) {
    const own = lines.filter((line) => line.round === round).toSorted((a, b) => a.innerStep - b.innerStep);
    for (const { step, island, loss, tookIn } of own) {
      if (tookIn === round) reference.takeIn(island);
      expect(Math.abs(loss / reference.step(island, step).loss - 1), `loss of step ${step}`).toBeLessThan(BOUND);
    }
    for (let island = 0; island < count; island++) reference.takeIn(island);
    reference.meetBeside();
  }
}
