/** The check that a tab makes of its GPU, on Dawn: passed by a right one, refused where a kernel and its reference differ. */
import { beforeAll, expect, test } from 'vitest';
import { forDevice } from '../../../shaders/forDevice.ts';
import type { Kernel } from '../../../shaders/kernel/kernel.ts';
import { textKey } from '../../../shaders/kernel/text.ts';
import { learnRates, ratesOf } from '../../../shaders/kernel/watchdog.ts';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { at } from '../../../swarm/base.ts';
import type { AdapterProfile } from '../../../swarm/messages/profile.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { program } from '../../../swarm/model/program.ts';
import { trainSchema } from '../../../swarm/run/runFile.ts';
import { admit, layerTimes } from './admission.ts';
import { gpuOf } from './engine.ts';
import type { Memory } from './examination.ts';
import type { KernelCall } from './kernelCall.ts';
import { checkKernels, kernelCases } from './kernelCheck.ts';
import { probeMemory } from './memoryProbe.ts';
import { microBatchCalls } from './microBatchCalls.ts';
import { updateSpeed } from './updateSpeed.ts';

const ADAPTER: AdapterProfile = { vendor: 'v', architecture: 'a', description: '', software: true, browser: 'dawn' };
const now = (): number => performance.now() / 1000;
const train = trainSchema.parse({
  steps: 1,
  globalBatchSize: 4,
  sequenceLength: 16,
  optimizer: { type: 'adamw', learningRate: 1e-3, betas: [0.9, 0.95], epsilon: 1e-8, weightDecay: 0.1 },
});

const FAMILIES = {
  gpt2: { model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 36, n_positions: 32, vocab_size: 70 },
  llama: {
    model_type: 'llama',
    num_hidden_layers: 1,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    hidden_size: 32,
    intermediate_size: 44,
    max_position_embeddings: 32,
    vocab_size: 70,
  },
  gemma3_text: {
    ...{ model_type: 'gemma3_text', num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2 },
    ...{ head_dim: 8, hidden_size: 32, intermediate_size: 44, max_position_embeddings: 32, vocab_size: 70 },
    ...{ sliding_window: 5, sliding_window_pattern: 2 },
  },
};

function modelOf(family: keyof typeof FAMILIES) {
  const model = modelFromConfig(FAMILIES[family]);
  if (!model.ok) throw new Error(model.reason);
  return model.value;
}

function memoryIn(kept: { text: string }): Memory {
  return {
    recall: async () => kept.text,
    remember: async (checks) => {
      kept.text = checks;
    },
  };
}

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

test.each(['gpt2', 'llama', 'gemma3_text'] as const)(
  '[AD1] %s: a right GPU passes, is measured, and is remembered',
  async (family) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const kept = { text: '' };
    const right = () => kept.text.split('\n').length;
    const model = modelOf(family);
    const wire = 'f32' as const;
    const known = { memoryBytes: 3, memoryTriedBytes: 2 ** 40 };
    const drafted = { draftedBytes: 2 ** 40, known: null };
    const memory = memoryIn(kept);
    const of = { adapter: ADAPTER, evaluates: true, wallMs: () => 0 };
    const applicant = { ...of, model, train, wire, memoryBytes: 2 ** 20, memory, drafted, now };
    const first = await admit({ ...applicant, gpu: gpuOf(dawn.value) });
    if (!first.ok) throw new Error(first.reason);
    expect(first.value.checkedKernels).toBeGreaterThan(15);
    const samples = first.value.layers.map((layer) => layer.samples);
    expect(samples).toHaveLength(2);
    expect(samples[0]).toBe(1);
    expect([2, 4]).toContain(samples[1]); // a machine that is busy is measured with fewer
    for (const { forwardSeconds, backwardSeconds } of first.value.layers) {
      expect(forwardSeconds).toBeGreaterThan(0);
      expect(backwardSeconds).toBeGreaterThan(0);
    }
    expect(first.value).toMatchObject({ memoryBytes: 2 ** 20, memoryTriedBytes: 2 ** 20 });
    expect(first.value.mainMemory).not.toHaveProperty('onGpuSeconds'); // no room for it
    expect(right()).toBe(first.value.checkedKernels);
    // Too little was found for this run: it is tried again. Enough of it is believed.
    const again = await admit({ ...applicant, drafted: { ...drafted, known }, gpu: gpuOf(dawn.value) });
    // Nothing is compared twice; on a busy machine the first visit had no time for some.
    const left = right() - first.value.checkedKernels;
    expect(again).toMatchObject({ ok: true, value: { checkedKernels: left, memoryBytes: 2 ** 20 } });
    const enough = { ...drafted, known: { ...known, memoryBytes: 2 ** 20 - 4 } };
    const last = await admit({ ...applicant, memoryBytes: 1_000_000, drafted: enough, gpu: gpuOf(dawn.value) });
    expect(last).toMatchObject({ ok: true, value: { memoryBytes: 1_000_000, memoryTriedBytes: 1_000_000 } });
  },
);

test('an update of an element on the GPU is measured, within the memory that is given', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  const seconds = await updateSpeed(gpu, null, now);
  expect(seconds).toBeGreaterThan(0);
  expect(await updateSpeed(gpu, 2 ** 24, now)).not.toBeNull();
  expect(await updateSpeed(gpu, 2 ** 24 - 1, now)).toBeNull();
});

test('memory is allocated, written and freed, time and again', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { device } = dawn.value;
  for (let time = 0; time < 3; time++)
    expect(await probeMemory(device, 100_000_000, 1_000_000, () => 0)).toBe(100_000_000);
});

test('[AD2] a kernel whose results differ from its reference refuses the GPU by name', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  const cases = kernelCases(
    gpu,
    modelOf('gpt2'),
    { sequence: train.sequenceLength, samples: 4 },
    'int8',
    'f32',
    'int8',
  );
  for (const broken of [
    ...['attention.forward', 'adamw', 'layerNorm.backward', 'packInt8.feedback'],
    ...['packInt8.rest', 'packInt8.difference', 'addInt8'],
  ]) {
    expect(
      cases.some(({ kernel }) => kernel.name === broken),
      broken,
    ).toBe(true);
    const concerned = cases.filter(({ kernel }) => kernel.name === broken);
    const table = concerned.map(({ kernel, dims }) => {
      const cpu: typeof kernel.cpu = (arrays, actual) => {
        kernel.cpu(arrays, actual);
        const output = kernel.tensors.find(({ access }) => access === 'readWrite');
        const values = arrays[output?.name ?? ''];
        if (values) values[0] = at(values, 0) + (output?.type === 'u32' ? 1 : 0.01);
      };
      return { kernel: { ...kernel, cpu }, dims };
    });
    expect(await checkKernels(gpu, concerned, now)).toMatchObject({ ok: true });
    const checked = await checkKernels(gpu, table, now);
    expect(checked).toMatchObject({ ok: false, reason: expect.stringContaining(`${broken} is wrong`) });
  }
});

// GPUs' texts take a software adapter half a minute: `npm test -- --long`.
test.each(process.env.SHOAL_LONG === '1' ? (['software', 'gpu'] as const) : (['software'] as const))(
  '%s: what is wrong only in later rows, or at late keys, is found in the shapes of the run',
  async (family) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    // llvmpipe's own class has other texts: those of GPUs are changed here.
    const gpu = { ...gpuOf(dawn.value), family, gpuClass: 'usual' as const };
    const config = { ...FAMILIES.gpt2, n_embd: 64, n_positions: 100 };
    const model = modelFromConfig(config);
    if (!model.ok) throw new Error(model.reason);
    const cases = kernelCases(gpu, model.value, { sequence: 100, samples: 2 }, 'f32');
    const real = cases.filter(({ isReal }) => isReal);
    const costs = real.map(({ kernel, dims }) => kernel.cost(dims).flops);
    expect(costs).toEqual(costs.toSorted((a, b) => b - a));
    expect(at(real, 0)).toMatchObject({ kernel: { name: expect.stringMatching(/^matmul/) } });
    expect(await checkKernels(gpu, cases, now, { forSeconds: 100 })).toMatchObject({ ok: true });
    const broken = (name: string, from: RegExp, to: string) =>
      cases
        .filter(({ kernel }) => kernel.name === name)
        .map((one) => ({ ...one, kernel: withText(one.kernel, (text) => text.replace(from, to)) }));
    // An element of the product past row 63, and a query that sees one key too few past key 64.
    const products =
      family === 'gpu'
        ? broken('matmul.NN.bias', /var v = sum;/, 'var v = sum; if (m > 63u) { v *= 1.001; }')
        : broken('matmul.NN.bias', /store_c_MN\((\w+), /, 'store_c_MN($1, select(1.0, 1.001, $1 > 63u * 192u / 4u) * ');
    expect(products.length).toBeGreaterThan(1);
    expect(
      await checkKernels(
        gpu,
        products.filter(({ isReal }) => !isReal),
        now,
      ),
    ).toMatchObject({ ok: true });
    expect(await checkKernels(gpu, products, now, { forSeconds: 100 })).toMatchObject({
      ok: false,
      reason: expect.stringContaining('matmul.NN.bias is wrong'),
    });
    if (family !== 'gpu') return;
    const attention = broken(
      'attention.forward',
      /key <= first; key \+= TILE/,
      'key < min(first + 1u, 2u * TILE); key += TILE',
    );
    expect(
      await checkKernels(
        gpu,
        attention.filter(({ isReal }) => !isReal),
        now,
      ),
    ).toMatchObject({ ok: true });
    expect(await checkKernels(gpu, attention, now, { forSeconds: 100 })).toMatchObject({ ok: false });
  },
);

/** A kernel with another text, under a key of its own. */
function withText(kernel: Kernel, change: (text: string) => string): Kernel {
  return {
    ...kernel,
    source: (family, dims) => {
      const source = kernel.source(family, dims);
      const changed = change(source.body());
      if (changed === source.body()) throw new Error(`${kernel.name}: nothing was changed`);
      return { ...source, key: `${source.key} changed`, body: () => changed };
    },
  };
}

test('a layer whose first run is slow, since its driver compiles, is measured by the next one', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  let calls = 0;
  let clock = 0;
  // Long enough to be waited for one by one. The layer's own start is the first reading, the first forward is between the second and the third.
  const virtual = (): number => {
    calls++;
    clock += calls === 3 ? 2 : 0.01;
    return clock;
  };
  const model = modelOf('gpt2');
  const times = await layerTimes({ gpu: gpuOf(dawn.value), model, train, memoryBytes: null, now: virtual });
  expect(at(times, 0).forwardSeconds).toBeCloseTo(0.01, 6);
});

test('a fast device is measured as it will run, not in the boxes of a slow one', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  const { device, family } = gpu;
  const before = ratesOf(device, family);
  // Assumed so slow that all launches of a layer are cut; it is, by its own clock, a million times as fast.
  learnRates(device, family, 1, 1e6);
  let clock = 0;
  let settled = 0;
  const now = (): number => {
    clock += 0.01;
    return clock;
  };
  const work = device.queue.onSubmittedWorkDone.bind(device.queue);
  device.queue.onSubmittedWorkDone = () => {
    settled++;
    return work();
  };
  await layerTimes({ gpu, model: modelOf('gpt2'), train, memoryBytes: null, now });
  const twice = settled;
  settled = 0;
  await layerTimes({ gpu, model: modelOf('gpt2'), train, memoryBytes: null, now });
  device.queue.onSubmittedWorkDone = work;
  expect(twice).toBe(2 * settled);
  learnRates(device, family, ratesOf(device, family).flopsPerSecond, before.flopsPerSecond);
});

test.each([
  ['software', 'usual'],
  ['gpu', 'usual'],
  ['gpu', 'wide'],
  ['gpu', 'cpu'],
] as const)(
  '[AD2] %s, %s class: every text that a micro-batch of any size runs is one that is compared',
  (family, gpuClass) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const { device } = dawn.value;
    const bindingBytes = 2 ** 27;
    const wide = { ...FAMILIES.gpt2, n_embd: 256, n_positions: 128, vocab_size: 300 };
    const parsed = modelFromConfig(wide);
    if (!parsed.ok) throw new Error(parsed.reason);
    const samples = 40;
    const step = { sequence: 128, samples };
    const cases = kernelCases({ device, family, units: [], gpuClass, bindingBytes }, parsed.value, step, 'f32');
    const checked = new Set(cases.map(({ kernel, dims }) => textKey(kernel, dims, { family, inBoxes: false })));
    const none = { buffer: device.createBuffer({ size: 16, usage: GPUBufferUsage.STORAGE }) };
    const run = new Set<string>();
    for (let batch = 1; batch <= samples; batch++) {
      const work = microBatchCalls(program(parsed.value, [0, 3]), {
        ...{
          samples: batch,
          sequence: 128,
          rows: batch * 128,
          width: 256,
          lossScale: 1,
          elementBytes: 4,
          family,
          gpuClass,
        },
        ...{
          vocabulary: 300,
          bindingBytes,
          stands: false,
          buffer: () => none,
          value: () => none,
          gradient: () => none,
        },
      });
      for (const { kernel, dims } of Object.values<readonly KernelCall[]>({ ...work }).flat())
        run.add(textKey(forDevice({ units: [], gpuClass }, 'f32', kernel), dims, { family, inBoxes: false }));
    }
    none.buffer.destroy();
    expect(run.size).toBeGreaterThan(15);
    expect([...run].filter((key) => !checked.has(key))).toEqual([]);
    const largest = { software: 'matmul', usual: '128x64x16 8x4', wide: '128x64x16 8x8', cpu: 'direct' }[
      family === 'gpu' ? gpuClass : family
    ];
    expect([...run].filter((key) => key.includes(largest)).length).toBeGreaterThan(0);
  },
);
