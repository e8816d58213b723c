/**
 * Windows of examples on Dawn, against the float64 trainer: packed ones of odd lengths with padding, one a window, and layers
 * that see few rows; in stages and lanes, of which some micro-batches have no row that counts.
 */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { arrayOf, at, below, invariant, peerId, type Range, seededRandom } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { initialValues } from '../../swarm/model/initialValues.ts';
import type { Model } from '../../swarm/model/model.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { referenceTensors, referenceTrainer } from '../../swarm/reference/trainer.ts';
import { NO_TARGET, type WindowRows } from '../../swarm/run/data.ts';
import { trainSchema } from '../../swarm/run/runFile.ts';
import { recomputing } from '../../swarm/schedule/recompute.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';

const [T, SAMPLES, STEPS, VOCABULARY] = [21, 4, 3, 40];
const FAMILIES = {
  gpt2: { model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 12, n_positions: T, vocab_size: VOCABULARY },
  llama: {
    ...{ model_type: 'llama', num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 6 },
    ...{ hidden_size: 12, intermediate_size: 20, max_position_embeddings: T, vocab_size: VOCABULARY },
  },
};
const TRAIN = trainSchema.parse({
  ...{ steps: STEPS, globalBatchSize: SAMPLES, sequenceLength: T, gradientClipNorm: 1 },
  optimizer: { type: 'adamw', learningRate: 0.01, betas: [0.9, 0.95], epsilon: 1e-8, weightDecay: 0.1 },
});

/** Every second layer sees the last five rows. */
const windowed = (model: Model): Model => ({
  ...model,
  layer: (index) =>
    model.layer(index).map((row) => (row.op === 'attention' && index % 2 === 1 ? { ...row, window: 5 } : row)),
});

/** Examples of up to `longest` rows, of which the later half counts; none does of the first sample of each step. */
function windowOf(sample: number, longest: number): WindowRows {
  const random = seededRandom(100 + sample);
  const [ids, targets, firstRows] = [new Uint32Array(T), new Uint32Array(T).fill(NO_TARGET), new Uint32Array(T)];
  const padding = below(random, 4);
  for (let r = 0; r < T; ) {
    const isPadding = r >= T - padding;
    const length = isPadding ? 1 : Math.min(1 + below(random, longest), T - padding - r);
    for (let i = 0; i < length; i++) {
      firstRows[r + i] = r;
      if (isPadding) continue;
      ids[r + i] = below(random, VOCABULARY);
      if (2 * i >= length - 1 && sample % SAMPLES > 0) targets[r + i] = below(random, VOCABULARY);
    }
    r += length;
  }
  return { ids, targets, firstRows };
}

const joined = (parts: readonly Uint32Array[]): Uint32Array => Uint32Array.from(parts.flatMap((part) => [...part]));

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

const CASES = [
  ['gpt2', 7, ['a', 'b'], [1, 2]],
  ['llama', 7, ['a', 'b', 'c'], []],
  ['llama', 30, ['a'], []],
] as const;
test.each(CASES)(
  '[CO6] [DA10] %s on examples of up to %i rows, stages of %j, layers %j computed again',
  async (family, longest, names, recompute) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const parsed = modelFromConfig(FAMILIES[family]);
    invariant(parsed.ok, 'a valid model');
    const model = windowed(parsed.value);
    const blocks = new Map(model.blocks.map(({ name }) => [name, initialValues(model, name, 3)]));
    const values = (name: string): Float32Array => {
      const found = [...blocks].find(([block]) => block === name);
      invariant(found, `the model has ${name}`);
      return found[1];
    };
    const trainer = referenceTrainer(model, referenceTensors(model, values), TRAIN);
    const plan = equalSplit(model, SAMPLES, names.map(peerId), { microBatches: SAMPLES });
    const tokens = (step: number, [from, to]: Range) => {
      const windows = arrayOf(to - from, (i) => windowOf(step * SAMPLES + from + i, longest));
      return {
        ids: joined(windows.map(({ ids }) => ids)),
        targets: joined(windows.map(({ targets }) => targets)),
        firstRows: joined(windows.flatMap(({ firstRows }) => firstRows ?? [])),
      };
    };
    const swarm = await OneProcess.open({
      ...{ engine: gpuEngine(gpuOf(dawn.value), model, TRAIN), model, train: TRAIN, tokens },
      plan: recompute.length > 0 ? recomputing(plan, recompute) : plan,
      read: async (block, kind, [from, to]) =>
        kind === 'value' ? values(block).slice(from, to) : new Float32Array(to - from),
    });
    for (let step = 0; step < STEPS; step++) {
      const wanted = trainer.step(arrayOf(SAMPLES, (sample) => windowOf(step * SAMPLES + sample, longest)));
      const { loss, gradientNorm } = await swarm.step(step);
      expect(Math.abs(loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(2e-6);
      expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(5e-5);
    }
    expect(
      at(
        swarm.reports.flatMap(({ losses }) => losses).filter(({ microBatch }) => microBatch === 0),
        0,
      ).lossSum,
    ).toBe(0);
    swarm.close();
  },
);
