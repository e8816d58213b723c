/** A whole step on Dawn whose driver drops one submit without a word: no value that was not made is ever believed. */
import { expect, test } from 'vitest';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { invariant, seededRandom } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { trainSchema } from '../../../swarm/run/runFile.ts';
import { Solo } from '../testing/solo.ts';
import { gpuEngine, gpuOf } from './engine.ts';

const parsed = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 8, vocab_size: 12 },
});
invariant(parsed.ok, 'a valid model');
const model = parsed.value;
const train = trainSchema.parse({
  ...{ steps: 9, globalBatchSize: 2, sequenceLength: 8, gradientClipNorm: 1 },
  optimizer: { type: 'adamw', learningRate: 0.1, betas: [0.9, 0.95], epsilon: 1e-8, weightDecay: 0.1 },
});
const ids = Uint32Array.from({ length: 16 }, (_, index) => (index * 5) % 12);

/** The next command buffer of this label never comes to the GPU. */
function dropNext(device: GPUDevice, label: string): void {
  const lost = new WeakSet<GPUCommandBuffer>();
  const create = device.createCommandEncoder.bind(device);
  const submit = device.queue.submit.bind(device.queue);
  device.createCommandEncoder = (descriptor) => {
    const encoder = create(descriptor);
    if (descriptor?.label !== label) return encoder;
    device.createCommandEncoder = create;
    const finish = encoder.finish.bind(encoder);
    encoder.finish = () => {
      const commands = finish();
      lost.add(commands);
      return commands;
    };
    return encoder;
  };
  device.queue.submit = (commands) => {
    const all = [...commands];
    const kept = all.filter((one) => !lost.has(one));
    if (kept.length < all.length) device.queue.submit = submit;
    return submit(kept);
  };
}

// The step whose values are wrong ends there; a lost update is found before the next one is based on it.
test.each([
  ['F0', 1],
  ['B0', 1],
  ['norms', 1],
  ['update', 2],
] as const)('a step whose %s the GPU drops fails at step %i', async (label, failing) => {
  const dawn = await dawnDevice();
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const random = seededRandom(2);
  const solo = await Solo.open({
    engine: gpuEngine(gpuOf(dawn.value), model, train),
    model,
    train,
    read: async (_, kind, [from, to]) =>
      Float32Array.from({ length: to - from }, () => (kind === 'value' ? random() - 0.5 : 0)),
    tokens: () => ({ ids, targets: ids, firstRows: null }),
  });
  await solo.step(0);
  dropNext(dawn.value.device, label);
  for (let step = 1; step < failing; step++) await solo.step(step);
  await expect(solo.step(failing)).rejects.toThrow('it drops work silently');
  solo.close();
});
