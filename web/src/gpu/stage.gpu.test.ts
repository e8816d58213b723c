/** A stage on Dawn whose driver drops work, whose objects cannot be made, and whose launches are cut. */
import { beforeAll, expect, test } from 'vitest';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import { learnRates } from '../../../shaders/kernel/watchdog.ts';
import { type DawnDevice, dawnDevice } from '../../../shaders/testing/dawn.ts';
import { at, invariant, seededRandom } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { created } from './buffers.ts';
import { gpuOf } from './engine.ts';
import { createStage, type GpuStage } from './stage.ts';

const parsed = modelFromConfig({
  ...{ model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 32, vocab_size: 40 },
});
invariant(parsed.ok, 'a valid model');
const model = parsed.value;
const SAMPLES = 2;
const ids = Uint32Array.from({ length: SAMPLES * 32 }, (_, index) => (index * 7) % 40);
const work = {
  microBatch: 0,
  samples: SAMPLES,
  input: null,
  tokens: { ids, targets: ids, firstRows: null },
  evaluation: false,
};

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

function planOf(recompute: readonly number[] = []) {
  const size = { layers: [0, 1] as const, samples: SAMPLES, sequence: 32, slots: 1, recompute };
  return { size, globalBatch: SAMPLES, sizes: [SAMPLES] };
}

async function stageOn({ device, family }: DawnDevice, recompute: readonly number[] = []): Promise<GpuStage> {
  const plan = planOf(recompute);
  const stage = await createStage(gpuOf({ device, family }), model, plan);
  const random = seededRandom(1);
  for (const { name, elements } of model.blocks) {
    stage.writeValues(
      name,
      [0, elements],
      Float32Array.from({ length: elements }, () => random() - 0.5),
    );
  }
  return stage;
}

const lossOf = async (stage: GpuStage): Promise<Float32Array> =>
  (await stage.readLoss(0)).take((rows: Float32Array) => rows.slice());

test('a GPU that drops a pass silently is found at the next reading', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { device } = dawn.value;
  const stage = await stageOn(dawn.value);
  stage.begin();
  stage.forward(work);
  expect((await lossOf(stage)).every((loss) => loss > 0)).toBe(true);
  const submit = device.queue.submit.bind(device.queue);
  device.queue.submit = () => undefined;
  stage.backward(0, null);
  device.queue.submit = submit;
  // The loss of the forward before still lies there.
  await expect(lossOf(stage)).rejects.toThrow('the GPU did 1 of 2 passes');
  stage.close();
});

test('a layer is computed again before its backward, to the same bits', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gradients = async (recompute: readonly number[]): Promise<readonly Float32Array[]> => {
    if (!dawn.ok) return [];
    const stage = await stageOn(dawn.value, recompute);
    stage.begin();
    stage.forward(work);
    const { length } = stage.launchesOf(0).recompute;
    expect(length > 0).toBe(recompute.length > 0);
    if (length > 0) {
      expect(() => stage.backward(0, null)).toThrow('is computed again before its backward');
      stage.recompute(0);
    }
    stage.backward(0, null);
    const all = model.blocks.map(async ({ name, elements }) =>
      (await stage.readGradient(name, [[0, elements]])).take((values: Float32Array) => values.slice()),
    );
    const made = await Promise.all(all);
    stage.close();
    return made;
  };
  expect(await gradients([0])).toEqual(await gradients([]));
});

test('a stage whose launches and submits are cut for a slow device makes the same bits', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const run = async (stage: GpuStage): Promise<Float32Array[]> => {
    stage.begin();
    stage.forward(work);
    const loss = await lossOf(stage);
    stage.backward(0, null);
    const all = model.blocks.map(async ({ name, elements }) =>
      (await stage.readGradient(name, [[0, elements]])).take((values: Float32Array) => values.slice()),
    );
    const made = [loss, ...(await Promise.all(all))];
    stage.close();
    return made;
  };
  const whole = await stageOn(dawn.value);
  const expected = await run(whole);
  // A second for each ten thousand operations.
  learnRates(dawn.value.device, dawn.value.family, 1, 1e6);
  const cut = await stageOn(dawn.value);
  cut.forward(work); // whose size says which launches are meant
  const { forward, backward } = cut.launchesOf(0);
  expect([...forward, ...backward].filter(({ dispatches }) => dispatches.length > 1).length).toBeGreaterThan(3);
  expect(await run(cut)).toEqual(expected);
  learnRates(dawn.value.device, dawn.value.family, 1e6, 1);
});

test('a weight gradient in slices is the one of a stage that cuts none', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { device } = dawn.value;
  // Rows enough for two slices of the few weights.
  const samples = 16;
  const size = { layers: [0, 1] as const, samples, sequence: 32, slots: 1 };
  const tokens = Uint32Array.from({ length: samples * 32 }, (_, index) => (index * 7 + (index >> 4)) % 40);
  const run = async (family: AdapterFamily) => {
    const plan = { size, globalBatch: samples, sizes: [samples] };
    const stage = await createStage(gpuOf({ device, family }), model, plan);
    const random = seededRandom(1);
    for (const { name, elements } of model.blocks) {
      const values = Float32Array.from({ length: elements }, () => random() - 0.5);
      stage.writeValues(name, [0, elements], values);
    }
    stage.begin();
    stage.forward({ ...work, samples, tokens: { ids: tokens, targets: tokens, firstRows: null } });
    const { forward, backward } = stage.launchesOf(0);
    const slices = [...forward, ...backward].filter(({ kernel }) => kernel.name.startsWith('sumSlices')).length;
    stage.backward(0, null);
    const gradients = await Promise.all(
      model.blocks.map(async ({ name, elements }) =>
        (await stage.readGradient(name, [[0, elements]])).take((values: Float32Array) => values.slice()),
      ),
    );
    const { bytes } = stage;
    stage.close();
    return { slices, gradients, bytes };
  };
  const cut = await run('gpu');
  // The products without slices are the references' own family where the adapter has it.
  const whole = dawn.value.family === 'software' ? await run('software') : null;
  expect(cut.slices).toBe(5);
  if (!whole) return;
  expect(whole.slices).toBe(0);
  expect(cut.bytes).toBe(whole.bytes);
  cut.gradients.forEach((gradient, index) => {
    const expected = at(whole.gradients, index);
    const norm = Math.hypot(...expected);
    const off = Math.hypot(...gradient.map((value, i) => value - at(expected, i)));
    expect(norm).toBeGreaterThan(0);
    expect(off / norm).toBeLessThan(1e-5);
  });
});

test('what WebGPU refuses to make rejects by name', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { device } = dawn.value;
  const usage = GPUBufferUsage.STORAGE;
  const tooLarge = created(device, 'a table', () => device.createBuffer({ size: 2 ** 50, usage }));
  await expect(tooLarge).rejects.toThrow('invalid GPU objects for a table');
  const failing = created(device, 'nothing', () => {
    throw new Error('our own');
  });
  await expect(failing).rejects.toThrow('our own');
  await expect(created(device, 'a row', () => device.createBuffer({ size: 16, usage }).size)).resolves.toBe(16);
});

test.each(['f32', 'int4'] as const)(
  'what a stage hands on as %s is the same to the bit, whether micro-batches in flight share a place for it or not',
  async (encoding) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const { device, family } = dawn.value;
    const three = modelFromConfig({
      ...{ model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 32, n_positions: 32, vocab_size: 40 },
    });
    invariant(three.ok, 'a valid model');
    const made = async (keepsMade: boolean): Promise<number[][]> => {
      const size = { layers: [1, 2] as const, samples: 1, sequence: 32, slots: 3, recompute: [1], wires: [encoding], keepsMade }; // biome-ignore format: one line
      const stage = await createStage(gpuOf({ device, family }), three.value, { size, globalBatch: 3, sizes: [1] });
      const random = seededRandom(3);
      const floats = (length: number) => Float32Array.from({ length }, () => random() - 0.5);
      const streamOf = () => ({ encoding: 'f32', words: floats(32 * 32) }) as const;
      const taken = async (reading: ReturnType<GpuStage['readOutput']>) =>
        (await reading).take((words: Float32Array) => [...new Uint32Array(words.slice().buffer)]);
      for (const { name, elements } of three.value.blocks)
        if (name === 'layer.1') stage.writeValues(name, [0, elements], floats(elements));
      const found: number[][] = [];
      stage.begin();
      for (const microBatch of [0, 1, 2]) {
        stage.forward({ microBatch, samples: 1, input: streamOf(), tokens: null, evaluation: false, encoding });
        found.push(await taken(stage.readOutput(microBatch)));
      }
      for (const microBatch of [1, 0, 2]) {
        stage.recompute(microBatch);
        stage.backward(microBatch, streamOf(), encoding);
        found.push(await taken(stage.readInputGradient(microBatch)));
        stage.free(microBatch);
      }
      found.push(await taken(stage.readGradient('layer.1', [[0, 1000]])));
      stage.close();
      return found;
    };
    const [shared, apart] = [await made(false), await made(true)];
    expect(shared).toEqual(apart);
    expect(shared.every((words) => words.some((word) => word !== 0))).toBe(true);
  },
);
