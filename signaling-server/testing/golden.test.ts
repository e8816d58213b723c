import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { arrayOf, at, got } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { type ReferenceTrainer, referenceTensors, referenceTrainer } from '../../swarm/reference/trainer.ts';
import type { Window } from '../../swarm/reference/transformer.ts';
import { decodeShard, SEQUENTIAL, windowCount, windowOfSample, windowRows } from '../../swarm/run/data.ts';
import { modelOf, type RunFile } from '../../swarm/run/runFile.ts';
import { openBlobs } from '../files/blobs.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { prepareTokens } from '../texts/tokens.ts';
import { openWeights } from '../weights/weights.ts';

/** The golden numbers come from an independent trainer; here the files of a run go all the way into the reference trainer. */
interface Case {
  readonly run: RunFile;
  readonly model: Model;
  readonly trainer: ReferenceTrainer;
  readonly windows: (step: number) => Window[];
  readonly expected: readonly { loss: number; gradientNorm: number; learningRate: number }[];
}

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-golden-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const golden = (path: string) => fileURLToPath(new URL(`../../e2e/golden/${path}`, import.meta.url));

async function tensorsOf(path: string, model: Model): Promise<Map<string, Float64Array>> {
  const weights = await openWeights(path, model);
  if (!weights.ok) throw new Error(weights.reason);
  const blocks = new Map<string, Float32Array>();
  for (const { name, elements } of model.blocks) blocks.set(name, await weights.value.readBlock(name, 0, elements));
  await weights.value.close();
  return referenceTensors(model, (name) => got(blocks, name));
}

async function goldenCase(name: string): Promise<Case> {
  const parsed = await readRunFile(golden(`${name}/run.json`));
  if (!parsed.ok) throw new Error(parsed.reason);
  const run = parsed.value;
  const model = modelOf(run);
  const blobs = await openBlobs(folder);
  const tokens = await prepareTokens(run, golden(`${name}/run.json`), blobs, { date: new Date(0) });
  if (!tokens.ok) throw new Error(tokens.reason);
  const { data } = tokens.value;
  const bytes = await Promise.all(data.shards.map((hash) => blobs.read(hash)));
  const shards = bytes.map(({ buffer }) => decodeShard(buffer, data.bytesPerToken));
  const { globalBatchSize, sequenceLength } = run.train;
  const count = windowCount(data, sequenceLength);
  const { vocabulary } = modelOf(run);
  const window = (step: number, sample: number) => {
    const place = windowOfSample(SEQUENTIAL, step * globalBatchSize + sample, count);
    return windowRows((index) => at(shards, index), data, place, { sequenceLength, vocabulary });
  };
  return {
    run,
    model,
    trainer: referenceTrainer(model, await tensorsOf(golden(`${name}/${run.init}`), model), run.train),
    windows: (step) => arrayOf(globalBatchSize, (sample) => window(step, sample)),
    expected: readFileSync(golden(`${name}/expected.jsonl`), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  };
}

test.each([
  ['gpt2-tiny', 3],
  ['odd-gpt2', 3],
  ['untied-gpt2', 8],
  ['llama-tiny', 3],
  ['odd-llama', 5],
  ['tied-llama', 8],
  ['padded-llama', 6],
  ['llama3-tiny', 4],
  ['qwen2-tiny', 4],
  ['qwen3-tiny', 4],
  ['smollm3-tiny', 4],
  ['muon-tiny', 6],
  ['gemma3-tiny', 4],
  ['packed-llama', 4],
  ['packed-gpt2', 4],
])('%s: loss, norm and rate of the first %d steps', async (name, steps) => {
  const { trainer, windows, expected } = await goldenCase(name);
  for (let step = 0; step < steps; step++) {
    const row = at(expected, step);
    const { loss, gradientNorm, learningRate } = trainer.step(windows(step));
    expect(Math.abs(loss / row.loss - 1)).toBeLessThan(1e-9);
    expect(Math.abs(gradientNorm / row.gradientNorm - 1)).toBeLessThan(1e-9);
    expect(Math.abs(learningRate / row.learningRate - 1)).toBeLessThan(1e-12);
  }
});

test('untied-gpt2: the final weights', async () => {
  const { run, model, trainer, windows } = await goldenCase('untied-gpt2');
  for (let step = 0; step < run.train.steps; step++) trainer.step(windows(step));
  for (const [name, values] of await tensorsOf(golden('untied-gpt2/final.safetensors'), model)) {
    // The key third of c_attn.bias has an exact gradient of 0, whose rounding Adam turns into steps.
    const [from, to] = name.endsWith('c_attn.bias') ? [model.width, 2 * model.width] : [0, 0];
    const mine = got(trainer.tensors, name);
    const worst = values.reduce(
      (most, value, i) => (i >= from && i < to ? most : Math.max(most, Math.abs(value - at(mine, i)))),
      0,
    );
    expect(worst, name).toBeLessThan(1e-6);
  }
});
