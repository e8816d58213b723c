/**
 * Families in their smallest published sizes (but SmolLM3's 3B), four layers of each, with random weights and an adapter of
 * rank 16 on every linear module: loss and gradients of Dawn beside the float64 reference, and memory beside what is
 * predicted. In the long lane alone: the reference takes minutes.
 */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { at, got, invariant, peerId, seededRandom } from '../../../swarm/base.ts';
import { predictedBytes } from '../../../swarm/memory/memory.ts';
import { type Adapter, adapterModel } from '../../../swarm/model/adapter.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { initialValues } from '../../../swarm/model/initialValues.ts';
import { slices } from '../../../swarm/model/layout.ts';
import { type BlockName, blocksOfStage, type Model } from '../../../swarm/model/model.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { lossAndGradients, referenceTensors } from '../../../swarm/reference/trainer.ts';
import { gpuOf } from './engine.ts';
import { createShards } from './shards.ts';
import { createStage, type GpuStage } from './stage.ts';

const IS_LONG = process.env.SHOAL_LONG === '1';
const LAYERS = 4;
const ROWS = 32;
const RANK = 16;
/** Where the published vocabulary would take the reference an hour. */
const FEW_TOKENS = 8_192;
const LOSS_BOUND = 2e-6;
/** Of the norm of what a tensor's gradient is off, in that gradient's norm. */
const GRADIENT_BOUND = 1e-4;

const LINEAR = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
/** Fields as their config.json names them. */
const sizes = (hidden: number, inner: number, heads: number, keyValueHeads: number) => ({
  ...{ num_hidden_layers: LAYERS, hidden_size: hidden, intermediate_size: inner, max_position_embeddings: 2_048 },
  ...{ num_attention_heads: heads, num_key_value_heads: keyValueHeads, tie_word_embeddings: true },
});
const GPT2 = { n_layer: LAYERS, n_head: 12, n_embd: 768, n_positions: 1_024, vocab_size: 50_257 };
const LLAMA_3 = {
  ...{ rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 },
  original_max_position_embeddings: 8_192,
};

const PUBLISHED: readonly (readonly [name: string, config: Record<string, unknown>])[] = [
  ['GPT-2', { model_type: 'gpt2', ...GPT2 }],
  ['SmolLM2-135M', { model_type: 'llama', ...sizes(576, 1_536, 9, 3), vocab_size: 49_152, rope_theta: 100_000 }],
  ['Qwen2.5-0.5B', { model_type: 'qwen2', ...sizes(896, 4_864, 14, 2), vocab_size: FEW_TOKENS, rope_theta: 1e6 }],
  [
    'Qwen3-0.6B',
    { model_type: 'qwen3', ...sizes(1_024, 3_072, 16, 8), head_dim: 128, vocab_size: FEW_TOKENS, rope_theta: 1e6 },
  ],
  [
    'Gemma-3-270m',
    {
      ...{ model_type: 'gemma3_text', ...sizes(640, 2_048, 4, 1), head_dim: 256, vocab_size: FEW_TOKENS },
      ...{ query_pre_attn_scalar: 256, sliding_window: 16, sliding_window_pattern: 3 },
    },
  ],
  [
    'Llama-3.2-1B',
    {
      ...{ model_type: 'llama', ...sizes(2_048, 8_192, 32, 8), head_dim: 64, vocab_size: FEW_TOKENS },
      ...{ rope_theta: 500_000, rope_scaling: LLAMA_3 },
    },
  ],
];

function adapted(config: Record<string, unknown>): Model {
  const base = modelFromConfig(config);
  invariant(base.ok, base.ok ? '' : base.reason);
  const targets = config.model_type === 'gpt2' ? ['c_attn', 'c_proj', 'c_fc'] : LINEAR;
  const model = adapterModel(base.value, { rank: RANK, alpha: 32, targets, rslora: false } satisfies Adapter);
  invariant(model.ok, model.ok ? '' : model.reason);
  return model.value;
}

/** A's as they begin, B's too at random: else no A would have a gradient. */
function adapterValues(model: Model): Map<BlockName, Float32Array<ArrayBuffer>> {
  const random = seededRandom(7);
  return new Map(
    model.blocks.map((block) => {
      const values = initialValues(model, block.name, 3);
      for (const { initial, offset, elements } of block.tensors)
        if (initial === 'zeros') for (let i = 0; i < elements; i++) values[offset + i] = 0.04 * (random() - 0.5);
      return [block.name, values] as const;
    }),
  );
}

/** All of the model at one donor. */
function alone(model: Model): Plan {
  const [peer] = ['donor'].map(peerId);
  invariant(peer, 'a donor');
  return {
    stages: [{ layers: [0, LAYERS], members: [{ peer, microBatches: [0], samples: 1, recompute: [] }] }],
    microBatches: [{ id: 0, samples: [0, 1] }],
    state: model.blocks.map(({ name, elements }) => ({
      block: name,
      shards: [{ peer, range: [0, elements], replicas: [] }],
    })),
    schedule: 'gpipe',
  };
}

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

async function gradientsOf(stage: GpuStage, model: Model): Promise<Map<string, Float32Array>> {
  const found = new Map<string, Float32Array>();
  for (const use of blocksOfStage(model, [0, LAYERS])) {
    const block = got(new Map(model.blocks.map((own) => [own.name, own])), use.block);
    const values = new Float32Array(block.elements);
    for (const range of slices(use, [0, block.elements]))
      await (await stage.readGradient(use.block, [range])).take((words) => values.set(words, range[0]));
    for (const { name, offset, elements } of block.tensors) found.set(name, values.subarray(offset, offset + elements));
  }
  return found;
}

test.runIf(IS_LONG).each(PUBLISHED)('%s, four layers of it', { timeout: 1_800_000 }, async (name, config) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const model = adapted(config);
  const gpu = gpuOf(dawn.value);
  const size = { layers: [0, LAYERS] as const, samples: 1, sequence: ROWS, slots: 1 };
  const stage = await createStage(gpu, model, { size, sizes: [1], globalBatch: 1 });
  const plan = alone(model);
  const { peer } = at(at(plan.stages, 0).members, 0);
  const optimizer = { type: 'adamw', learningRate: 1, betas: [0.9, 0.9], epsilon: 1e-8, weightDecay: 0 } as const;
  const shards = await createShards(
    gpu,
    model,
    { ...optimizer, betas: [0.9, 0.9] },
    'f32',
    plan,
    peer,
    new Map([[0, stage]]),
  );
  expect(stage.bytes + shards.bytes).toBe(predictedBytes(model, plan, peer, ROWS));

  const whole = { ...model, blocks: model.standing ?? [] };
  const trained = adapterValues(model);
  const tensors = referenceTensors(model, (own) => got(trained, own));
  for (const { name: own, elements, tensors: rows } of whole.blocks) {
    const values = initialValues(whole, own, 1);
    stage.writeStanding(own, [0, elements], values);
    for (const row of rows)
      tensors.set(row.name, Float64Array.from(values.subarray(row.offset, row.offset + row.elements)));
  }
  for (const [own, values] of trained) stage.writeValues(own, [0, values.length], values);
  const random = seededRandom(11);
  const window = Uint32Array.from({ length: ROWS + 1 }, () => Math.floor(random() * model.vocabulary));
  const began = performance.now();
  stage.begin();
  const tokens = { ids: window.subarray(0, -1), targets: window.subarray(1), firstRows: null };
  stage.forward({ microBatch: 0, samples: 1, input: null, tokens, evaluation: false, encoding: 'f32' });
  const losses = await (await stage.readLoss(0)).take((words) => words.slice());
  stage.backward(0, null);
  const made = await gradientsOf(stage, model);
  const seconds = (performance.now() - began) / 1000;

  const right = lossAndGradients(model, tensors, [window]);
  const loss = losses.reduce((sum, one) => sum + one, 0) / ROWS;
  let worst = 0;
  for (const [tensor, mine] of made) {
    const exact = got(right.gradients, tensor);
    const off = Math.hypot(...parts(mine, exact));
    worst = Math.max(worst, off / Math.hypot(...parts(exact)));
  }
  console.info(
    `${name}: ${stage.bytes + shards.bytes} bytes, loss ${Math.abs(loss / right.loss - 1).toExponential(1)} off, gradients ${worst.toExponential(1)}, ${seconds.toFixed(1)} s`,
  );
  expect(Math.abs(loss / right.loss - 1)).toBeLessThan(LOSS_BOUND);
  expect(worst).toBeLessThan(GRADIENT_BOUND);
  shards.close();
  stage.close();
});

/** Norms of runs of the values, or of what others are off them: a call takes no more arguments. */
function parts(values: ArrayLike<number>, others?: ArrayLike<number>): number[] {
  const sums = new Array<number>(64).fill(0);
  for (let i = 0; i < values.length; i++)
    sums[i % 64] = (sums[i % 64] ?? 0) + (at(values, i) - (others ? at(others, i) : 0)) ** 2;
  return sums.map(Math.sqrt);
}
