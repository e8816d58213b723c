/** Shards on Dawn: what goes in comes out, also where it is longer than one piece that is read back. */
import { expect, test } from 'vitest';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { invariant, peerId, type Range, seededRandom } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { SLICE_ELEMENTS } from '../../../swarm/model/layout.ts';
import { block } from '../../../swarm/model/model.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { STATE_KINDS } from '../../../swarm/plan/stateKinds.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { gpuOf } from './engine.ts';
import { createShards } from './shards.ts';

const OPTIMIZER: Train['optimizer'] = {
  type: 'adamw',
  learningRate: 1e-3,
  betas: [0.9, 0.99],
  epsilon: 1e-8,
  weightDecay: 0,
};

test('the state of a shard of several pieces is read back as it was written', async () => {
  const dawn = await dawnDevice();
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const parsed = modelFromConfig({
    ...{ model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 8, n_positions: 32, vocab_size: 300_001 },
  });
  invariant(parsed.ok, 'a valid model');
  const model = parsed.value;
  const [worker, keeper] = ['worker', 'keeper'].map(peerId);
  invariant(worker && keeper, 'two peers');
  const member = { peer: worker, microBatches: [0], samples: 1, recompute: [] };
  const range: Range = [0, block(model, 'embedding').elements];
  const plan: Plan = {
    stages: [{ layers: [0, 1], members: [member] }],
    microBatches: [{ id: 0, samples: [0, 1] }],
    state: model.blocks.map(({ name, elements }) => ({
      block: name,
      shards: [{ peer: name === 'embedding' ? keeper : worker, range: [0, elements], replicas: [] }],
    })),
    schedule: 'gpipe',
  };
  expect(range[1]).toBeGreaterThan(2 * SLICE_ELEMENTS);
  const shards = await createShards(gpuOf(dawn.value), model, OPTIMIZER, 'f32', plan, keeper, new Map());
  const random = seededRandom(5);
  const written = STATE_KINDS.map(() => Float32Array.from({ length: range[1] }, random));
  STATE_KINDS.forEach((kind, index) => {
    shards.writeState('embedding', range, kind, written[index] ?? new Float32Array());
  });
  const state = await shards.readState('embedding', range, STATE_KINDS);
  STATE_KINDS.forEach((kind, index) => {
    const read = state.subarray(index * range[1], (index + 1) * range[1]);
    expect(Buffer.compare(bytesOf(read), bytesOf(written[index] ?? new Float32Array())), kind).toBe(0);
  });
  shards.close();
});

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
