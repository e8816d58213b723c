/** The benchmark's trainer against the float64 reference, and its islands against an independent trainer's golden run. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { arrayOf, at, got, invariant, seededRandom } from '../../../swarm/base.ts';
import { turnAt } from '../../../swarm/islands/rounds.ts';
import { initialValues } from '../../../swarm/model/initialValues.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { referenceTensors, referenceTrainer, Trainer } from '../../../swarm/reference/trainer.ts';
import { modelOf, parseRunFile } from '../../../swarm/run/runFile.ts';
import { openWeights } from '../../weights/weights.ts';
import { BlockedProducts } from './blockedProducts.ts';
import { firstValues, flatState, tensorRanges } from './flatState.ts';
import { IslandTraining } from './islandTraining.ts';
import { bookModel, trainOf } from './runs.ts';

const golden = (path: string) => fileURLToPath(new URL(`../../../e2e/golden/${path}`, import.meta.url));

test('a product of matrices, of one that is turned, onto what stands there', () => {
  const [m, n, k] = [8, 16, 3];
  const products = new BlockedProducts();
  const random = seededRandom(1);
  const drawn = (length: number) => products.zeros(length).map(() => random() - 0.5);
  const into = (values: Float32Array) => {
    const view = products.zeros(values.length);
    view.set(values);
    return view;
  };
  const [a, b, c] = [into(drawn(m * k)), into(drawn(k * n)), into(drawn(m * n))];
  const expected = Array.from(c, (before, index) => {
    const [i, j] = [Math.floor(index / n), index % n];
    // A stands turned: [k, m].
    let sum = before;
    for (let q = 0; q < k; q++) sum = Math.fround(sum + Math.fround(at(a, q * m + i) * at(b, q * n + j)));
    return sum;
  });
  products.add([m, n, k], { values: a, row: 1, column: m }, { values: b, row: n }, { values: c, row: n });
  expect(Array.from(c)).toEqual(expected);
});

test('steps of the CPU trainer are those of the float64 reference', () => {
  const model = bookModel({ layers: 2, width: 32, heads: 2, positions: 16 });
  const train = trainOf({ steps: 10, learningRate: 3e-3, samples: 2, positions: 16 });
  const first = firstValues(model, 3);
  const ranges = tensorRanges(model);
  const reference = referenceTrainer(
    model,
    referenceTensors(model, (name) => initialValues(model, name as BlockName, 3)),
    train,
  );
  const trainer = new Trainer(model, train, new BlockedProducts());
  const state = flatState(model, first);
  const random = seededRandom(5);
  for (let step = 0; step < 10; step++) {
    const windows = [0, 1].map(() => arrayOf(17, () => Math.floor(256 * random())));
    const expected = reference.step(windows);
    const { loss, gradientNorm } = trainer.step(state, windows, step);
    expect(Math.abs(loss / expected.loss - 1), `loss of step ${step}`).toBeLessThan(2e-6);
    expect(Math.abs(gradientNorm / expected.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(2e-5);
  }
  for (const [name, values] of reference.tensors) {
    const own = state.values.subarray(...got(ranges, name));
    const worst = Math.max(...Array.from(values, (value, i) => Math.abs(value - at(own, i))));
    // Adam's first steps are the rate times a sign: where a gradient is nearly 0 its rounding decides.
    expect(worst, name).toBeLessThan(2e-4);
  }
});

/** Past several meetings. Near ties may be chosen otherwise by a sparse exchange and by int8, so that it is held less closely. */
test.each([
  ['islands-f32', 1e-5],
  ['islands-sparse', 1e-3],
])('[IS3] [IS4] %s: the losses of an independent trainer', async (name, bound) => {
  const path = golden(`${name}/run.json`);
  const parsed = parseRunFile(JSON.parse(readFileSync(path, 'utf8')), name);
  invariant(parsed.ok && parsed.value.train.islands, 'a run with islands');
  const { train } = parsed.value;
  const { islands } = parsed.value.train;
  const model = modelOf(parsed.value);
  const opened = await openWeights(golden('gpt2-tiny/init.safetensors'), model);
  invariant(opened.ok, 'weights');
  const parts = await Promise.all(model.blocks.map((own) => opened.value.readBlock(own.name, 0, own.elements)));
  await opened.value.close();
  const first = Float32Array.from(parts.flatMap((part) => Array.from(part)));
  const text = readFileSync(golden('gpt2-tiny/corpus.txt'));
  const { sequenceLength: T, globalBatchSize: B } = train;
  const count = Math.floor((text.length - 1) / T);
  const trainer = new Trainer(model, train, new BlockedProducts());
  const islandCount = Number(islands.count);
  const training = new IslandTraining(trainer, islands, islandCount, first, (number) =>
    arrayOf(B, (sample) => {
      const from = ((number * B + sample) % count) * T;
      return text.subarray(from, from + T + 1);
    }),
  );
  const rows = readFileSync(golden(`${name}/expected.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  let lists: number[][] = arrayOf(islandCount, () => []);
  for (let step = 0; step < train.steps; step++) {
    const { number, island, endsRound } = turnAt(train, step);
    at(lists, island).push(number);
    if (!endsRound) continue;
    const losses = training.round(lists);
    for (const [index, own] of lists.flat().entries())
      expect(Math.abs(at(losses, index) / at(rows, own).loss - 1), `loss of step ${own}`).toBeLessThan(bound);
    lists = arrayOf(islandCount, () => []);
  }
});

test('[IS4] one island that meets nobody, whole steps outwards, trains as it would alone', () => {
  const model = bookModel({ layers: 1, width: 16, heads: 2, positions: 8 });
  const train = trainOf({ steps: 12, learningRate: 3e-3, samples: 2, positions: 8 });
  const first = firstValues(model, 1);
  const trainer = new Trainer(model, train, new BlockedProducts());
  const windows = (number: number) =>
    [0, 1].map((sample) => arrayOf(9, (i) => (number * 7 + sample * 3 + i * i) % 256));
  const settings = { outer: { learningRate: 1, momentum: 0 }, exchange: 'f32', publish: 'f32' } as const;
  const training = new IslandTraining(trainer, settings, 1, first, windows);
  const losses = [0, 1, 2].flatMap((round) => training.round([[0, 1, 2, 3].map((step) => 4 * round + step)]));
  const state = flatState(model, first);
  const alone = arrayOf(12, (step) => trainer.step(state, windows(step), step).loss);
  expect(losses.slice(0, 4)).toEqual(alone.slice(0, 4));
  // P − (P − own) is own but for its last bit.
  for (const [step, loss] of losses.entries()) expect(Math.abs(loss / at(alone, step) - 1)).toBeLessThan(1e-6);
});
