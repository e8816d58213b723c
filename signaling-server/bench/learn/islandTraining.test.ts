import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { arrayOf, at, got, seededRandom } from '../../../swarm/base.ts';
import { headerBytes, LENGTH_BYTES, parseHeader } from '../../../swarm/model/safetensors.ts';
import { Trainer } from '../../../swarm/reference/trainer.ts';
import { modelOf, parseRunFile } from '../../../swarm/run/runFile.ts';
import { BlockedProducts } from './blockedProducts.ts';
import { IslandTraining } from './islandTraining.ts';

const GOLDEN = join(import.meta.dirname, '..', '..', '..', 'e2e', 'golden');
const golden = (path: string) => readFileSync(join(GOLDEN, path));

const STEPS = 24;
/** Rounds of one step each: which island did it. */
const RECORDED = '111110010111001011110110';

function weights(): Map<string, Float32Array> {
  const file = new Uint8Array(golden('gpt2-tiny/init.safetensors'));
  const header = headerBytes(file, file.length);
  if (!header.ok) throw new Error(header.reason);
  const start = LENGTH_BYTES + header.value;
  const parsed = parseHeader(file.subarray(LENGTH_BYTES, start), file.length - start);
  if (!parsed.ok) throw new Error(parsed.reason);
  return new Map(
    [...parsed.value.tensors].map(([name, { from, to }]) => [
      name.replace(/^transformer\./, ''),
      new Float32Array(file.slice(start + from, start + to).buffer),
    ]),
  );
}

/** How far the losses of the recorded rounds are apart, relative, when each weight begins a rounding of float32 elsewhere. */
function spread(rate: number): number {
  const json = JSON.parse(golden('islands-f32/run.json').toString());
  const islands = { count: 'auto', roundSeconds: 2, exchange: 'f32', publish: 'f32' };
  const optimizer = { ...json.train.optimizer, learningRate: rate };
  const parsed = parseRunFile({ ...json, train: { ...json.train, optimizer, steps: STEPS, islands } }, 'run.json');
  if (!parsed.ok || !parsed.value.train.islands) throw new Error('a run with islands');
  const { train } = parsed.value;
  const settings = parsed.value.train.islands;
  const model = modelOf(parsed.value);
  const text = golden('gpt2-tiny/corpus.txt');
  const { globalBatchSize: B, sequenceLength: T } = train;
  const count = Math.floor((text.length - 1) / T);
  const batch = (number: number) =>
    arrayOf(B, (sample) => {
      const from = ((number * B + sample) % count) * T;
      return text.subarray(from, from + T + 1);
    });
  const known = weights();
  const names = model.blocks.flatMap(({ tensors }) => tensors.map(({ name }) => name.replace(/^transformer\./, '')));
  const first = Float32Array.from(names.flatMap((name) => Array.from(got(known, name))));
  const random = seededRandom(7);
  const near = first.map((value) => value * (1 + 2 ** -23 * (2 * random() - 1)));
  const trainer = new Trainer(model, train, new BlockedProducts());
  const [one, other] = [first, near].map((from) => {
    const training = new IslandTraining(trainer, settings, 2, from, batch);
    return Array.from(RECORDED, (island, number) =>
      at(training.round([0, 1].map((own) => (own === Number(island) ? [number] : []))), 0),
    );
  });
  return Math.max(...(one ?? []).map((loss, step) => Math.abs(loss / (other?.[step] ?? 0) - 1)));
}

test('at the rate of the golden run a rounding of the weights is more than 1e-5 of a loss in some recorded rounds, at a third of it not', () => {
  expect(spread(0.003)).toBeGreaterThan(1e-5);
  expect(spread(0.001)).toBeLessThan(1e-6);
});
