/**
 * Bytes of GPU buffers, counted where they are made, and of ArrayBuffers, beside what the plan predicts: models of both
 * families, up to seven billion parameters. The device is a stub that adds up what it is asked for, so nothing is
 * allocated or compiled.
 */

import { memoryUsage } from 'node:process';
import { afterAll, expect, test, vi } from 'vitest';
import { arrayOf, invariant, peerId } from '../../../swarm/base.ts';
import { predictedBytes } from '../../../swarm/memory/memory.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { peers } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import { COMPUTE_PRECISIONS } from '../../../swarm/precision.ts';
import { trainSchema } from '../../../swarm/run/runFile.ts';
import { buildRole, closeRole } from '../../../web/src/executor/role.ts';
import { gpuEngine, gpuOf } from '../../../web/src/gpu/engine.ts';
import { benchOptimizer } from './optimizer.ts';

// The numbers of the standard, which a browser has as globals.
vi.stubGlobal('GPUShaderStage', { COMPUTE: 4 });
vi.stubGlobal('GPUBufferUsage', { UNIFORM: 0x40, COPY_DST: 8, STORAGE: 0x80, COPY_SRC: 4, MAP_READ: 1 });
afterAll(() => void vi.unstubAllGlobals());

/** Counts the bytes of the buffers that live. */
function countingDevice(): { readonly device: GPUDevice; readonly live: () => number; readonly most: () => number } {
  let live = 0;
  let most = 0;
  const nothing = () => ({});
  const device = {
    queue: { writeBuffer: nothing, submit: nothing },
    features: new Set(['shader-f16']),
    limits: { maxBufferSize: 2 ** 40, maxStorageBufferBindingSize: 2 ** 40 },
    createBuffer: ({ size }: GPUBufferDescriptor) => {
      live += size;
      most = Math.max(most, live);
      let left = size;
      const destroy = () => {
        live -= left;
        left = 0; // again is no error
      };
      return { size, destroy };
    },
    createBindGroup: nothing,
    createBindGroupLayout: nothing,
    createPipelineLayout: nothing,
    createShaderModule: nothing,
    createComputePipelineAsync: async () => ({}),
    pushErrorScope: nothing,
    popErrorScope: async () => null,
  };
  return { device: device as unknown as GPUDevice, live: () => live, most: () => most };
}

const gpt2 = (n_layer: number, n_embd: number, n_head: number, n_positions: number, vocab_size = 50_257) => ({
  ...{ model_type: 'gpt2', n_layer, n_embd, n_head, n_positions, vocab_size },
});
const llama = (layers: number, width: number, inner: number, heads: number, kv: number, vocabulary: number) => ({
  model_type: 'llama',
  ...{ num_hidden_layers: layers, hidden_size: width, intermediate_size: inner, vocab_size: vocabulary },
  ...{ num_attention_heads: heads, num_key_value_heads: kv, max_position_embeddings: 2048 },
});
const MODELS: Readonly<Record<string, Record<string, unknown>>> = {
  'the bundled run’s': gpt2(4, 64, 4, 64, 256),
  'size m of the benchmark': gpt2(4, 256, 8, 128, 512),
  'DistilGPT-2': gpt2(6, 768, 12, 1024),
  'GPT-2 small': gpt2(12, 768, 12, 1024),
  'GPT-2 medium': gpt2(24, 1024, 16, 1024),
  'GPT-2 XL': gpt2(48, 1600, 25, 1024),
  'a tiny Llama': llama(4, 64, 172, 4, 2, 256),
  stories15M: llama(6, 288, 768, 6, 6, 32_000),
  'SmolLM 360M': llama(32, 960, 2560, 15, 5, 49_152),
  'TinyLlama 1.1B': llama(22, 2048, 5632, 32, 4, 32_000),
  'Llama 3.2 1B': llama(16, 2048, 8192, 32, 8, 128_256),
  'Llama 2 7B': llama(32, 4096, 11_008, 32, 32, 32_000),
};

const recomputing = (plan: Plan): Plan => ({
  ...plan,
  stages: plan.stages.map((stage) => ({
    ...stage,
    members: stage.members.map((member) => ({
      ...member,
      recompute: arrayOf(stage.layers[1] - stage.layers[0], (index) => stage.layers[0] + index),
    })),
  })),
});

/** What these have, others have too, with fewer layers. */
const DEEP = ['GPT-2 XL', 'SmolLM 360M', 'TinyLlama 1.1B', 'Llama 2 7B'];
/** `npm test -- --long`: all of them. */
const TRIED = Object.keys(MODELS).filter((name) => process.env.SHOAL_LONG === '1' || !DEEP.includes(name));

test.each(TRIED)('%s: what a stage and its shards allocate is at most 1.05 times what was predicted', async (name) => {
  const parsed = modelFromConfig(MODELS[name]);
  invariant(parsed.ok, name);
  const model = parsed.value;
  const sequenceLength = Math.min(512, model.positions);
  const train = trainSchema.parse({
    ...{ steps: 1, globalBatchSize: 4, sequenceLength },
    optimizer: benchOptimizer(),
  });
  const donors = (count: number) => arrayOf(count, (index) => peerId(`d${index}`));
  const alone = equalSplit(model, 4, donors(1));
  const plans = {
    alone,
    'alone, recomputing': recomputing(alone),
    'two stages': equalSplit(model, 4, donors(2), { stages: 2 }),
  };
  for (const [kind, plan] of Object.entries(plans)) {
    for (const peer of peers(plan)) {
      for (const compute of COMPUTE_PRECISIONS) {
        const { device, live, most } = countingDevice();
        const engine = gpuEngine(gpuOf({ device, family: 'gpu' }), model, train, 'f32', compute);
        expect(engine.compute).toBe(compute);
        const arraysBefore = memoryUsage().arrayBuffers;
        const role = await buildRole(engine, model, train, plan, peer, 0);
        // What was dropped but not collected yet counts too.
        const arrays = Math.max(0, memoryUsage().arrayBuffers - arraysBefore);
        const predicted = predictedBytes(model, plan, peer, sequenceLength, 'f32', compute);
        expect(live(), kind).toBe(most());
        expect(live() / predicted, `${kind}, ${peer}, ${compute}`).toBeGreaterThanOrEqual(1);
        expect((live() + arrays) / predicted, `${kind}, ${peer}, ${compute}`).toBeLessThanOrEqual(1.05);
        closeRole(role);
        expect(live(), 'closing frees everything').toBe(0);
      }
    }
  }
});
