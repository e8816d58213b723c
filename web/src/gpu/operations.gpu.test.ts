/** A step of a model whose tables are bound in pieces, beside one whose tables are bound whole, on Dawn's software adapter. */
import { beforeAll, expect, test } from 'vitest';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { at, invariant, peerId, seededRandom } from '../../../swarm/base.ts';
import { predictedBytes, stagesOfPeer } from '../../../swarm/memory/memory.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { gpuOf } from './engine.ts';
import { createShards } from './shards.ts';
import { createStage } from './stage.ts';

const [VOCABULARY, POSITIONS, SAMPLES] = [50_257, 32, 1];
/** Bytes: the table has six times as many, and each of its arrays too. */
const BINDING_BYTES = 2 ** 19;

const OPTIMIZER: Train['optimizer'] = {
  ...{ type: 'adamw', learningRate: 1e-3, betas: [0.9, 0.999], epsilon: 1e-8, weightDecay: 0.1 },
};

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

const common = { vocab_size: VOCABULARY };
const MODELS = {
  tied: { ...common, model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 16, n_positions: POSITIONS },
  untied: {
    ...{ ...common, model_type: 'llama', num_hidden_layers: 1, num_attention_heads: 1, hidden_size: 16 },
    ...{ intermediate_size: 24, max_position_embeddings: POSITIONS, tie_word_embeddings: false },
  },
};

/** A forward, a backward and an update; what they leave. */
async function stepOn(family: AdapterFamily, config: object, bindingBytes?: number) {
  invariant(dawn.ok, 'asked before');
  const parsed = modelFromConfig(config);
  invariant(parsed.ok, 'a valid model');
  const model = parsed.value;
  const gpu = gpuOf({ device: dawn.value.device, family, ...(bindingBytes !== undefined && { bindingBytes }) });
  const peer = peerId('a');
  const plan = equalSplit(model, SAMPLES, [peer]);
  const [size] = stagesOfPeer(plan, peer, POSITIONS).values();
  invariant(size, 'one stage');
  const stage = await createStage(gpu, model, { size, globalBatch: SAMPLES, sizes: [SAMPLES] });
  const shards = await createShards(gpu, model, OPTIMIZER, 'f32', plan, peer, new Map([[0, stage]]));
  expect(stage.bytes + shards.bytes).toBe(predictedBytes(model, plan, peer, POSITIONS));
  const random = seededRandom(1);
  for (const { name, elements } of model.blocks) {
    const values = Float32Array.from({ length: elements }, () => random() / 2 - 0.25);
    stage.writeValues(name, [0, elements], values);
  }
  // Some from each piece, the first and the last row among them.
  const ids = Uint32Array.from({ length: SAMPLES * POSITIONS }, (_, i) => (i * 3_241) % VOCABULARY);
  ids[5] = VOCABULARY - 1;
  const read = async (what: 'readGradient' | 'readValues') => {
    const arrays = model.blocks.flatMap(({ name, elements }) =>
      [0, 1, 2, 3].map((quarter) => {
        const range = [Math.floor((quarter * elements) / 4), Math.floor(((quarter + 1) * elements) / 4)] as const;
        return what === 'readValues' ? stage.readValues(name, range) : stage.readGradient(name, [range]);
      }),
    );
    const found: Float32Array[] = [];
    for (const reading of arrays) found.push(await (await reading).take((values: Float32Array) => values.slice()));
    return found;
  };
  stage.begin();
  shards.begin();
  stage.forward({
    microBatch: 0,
    samples: SAMPLES,
    input: null,
    tokens: { ids, targets: ids.toReversed(), firstRows: null },
    evaluation: false,
  });
  const losses = await (await stage.readLoss(0)).take((rows: Float32Array) => rows.slice());
  stage.backward(0, null);
  const gradients = await read('readGradient');
  for (const { name, elements } of model.blocks) shards.addOwn(name, [0, elements], stage);
  const norms = await shards.sumSquares();
  shards.update({ learningRate: 0.01, clipScale: 0.5, time: 1 });
  const values = await read('readValues');
  const launches = stage.launchesOf(0);
  const count = launches.forward.length + launches.backward.length + shards.launches().update.length;
  shards.close();
  stage.close();
  return { losses, gradients, norms: norms.map(({ sumSquares }) => sumSquares), values, count };
}

/** Norm of the difference over the norm. */
function off(found: readonly Float32Array[], expected: readonly Float32Array[]): number {
  let [difference, whole] = [0, 0];
  found.forEach((values, array) => {
    values.forEach((value, index) => {
      const wanted = at(at(expected, array), index);
      difference += (value - wanted) ** 2;
      whole += wanted ** 2;
    });
  });
  expect(whole).toBeGreaterThan(0);
  return Math.sqrt(difference / whole);
}

// A software adapter compiles a GPU's texts for half a minute.
const CASES = [
  ['tied', 'software'],
  ['untied', 'software'],
  ...(process.env.SHOAL_LONG === '1' ? [['tied', 'gpu'] as const] : []),
] as const;

test.each(CASES)('a step with %s tables in pieces, family %s, is the one with whole tables', async (name, family) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  if (family === 'software' && dawn.value.family !== 'software')
    return console.warn('skipped: needs subgroups of four');
  const whole = await stepOn(family, MODELS[name]);
  const cut = await stepOn(family, MODELS[name], BINDING_BYTES);
  expect(cut.count).toBeGreaterThan(whole.count + 20);
  expect(cut.losses).toEqual(whole.losses);
  cut.norms.forEach((sum, index) => {
    expect(Math.abs(sum / at(whole.norms, index) - 1)).toBeLessThan(1e-5);
  });
  if (family === 'software') {
    expect(cut.gradients).toEqual(whole.gradients);
    expect(cut.values).toEqual(whole.values);
    return;
  }
  // A GPU's chain over the vocabulary ends with each piece.
  expect(off(cut.gradients, whole.gradients)).toBeLessThan(1e-5);
  expect(off(cut.values, whole.values)).toBeLessThan(1e-4);
});
