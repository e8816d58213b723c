/** Which pipelines a donor compiles, and when: each text once, none that nothing runs, all of a plan's at once. On Dawn. */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { at, invariant, peerId } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import { trainSchema } from '../../../swarm/run/runFile.ts';
import type { RunWire } from '../../../swarm/wire.ts';
import { buildRole, closeRole, warmRole } from '../executor/role.ts';
import { Solo } from '../testing/solo.ts';
import { admit } from './admission.ts';
import { gpuEngine, gpuOf } from './engine.ts';
import { GpuStage } from './stage.ts';

const [ME, OTHER] = [peerId('solo'), peerId('other')];
const ADAMW = { type: 'adamw', learningRate: 1e-3, betas: [0.9, 0.95], epsilon: 1e-8, weightDecay: 0.1 } as const;
const MUON = { ...ADAMW, type: 'muon', momentum: 0.95 } as const;
const trainBy = (optimizer: typeof ADAMW | typeof MUON) =>
  trainSchema.parse({ steps: 2, globalBatchSize: 4, sequenceLength: 16, optimizer });
const train = trainBy(ADAMW);
const now = (): number => performance.now() / 1000;

function modelOf() {
  const model = modelFromConfig({
    ...{ model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 36, n_positions: 32, vocab_size: 70 },
  });
  invariant(model.ok, 'a model');
  return model.value;
}
const model = modelOf();

interface Asked {
  readonly text: string;
  readonly pipeline: GPUComputePipeline;
  /** How many had been answered before it was asked for. */
  readonly answeredBefore: number;
}

/** What a device is asked to compile from now on, and what its passes run. Whoever asks synchronously is refused. */
function watched(device: GPUDevice) {
  const texts = new WeakMap<GPUShaderModule, string>();
  const [asked, ran] = [[] as Asked[], new Set<GPUComputePipeline>()];
  let answered = 0;
  const [module, compiled, encoder] = [
    device.createShaderModule.bind(device),
    device.createComputePipeline.bind(device),
    device.createCommandEncoder.bind(device),
  ];
  device.createShaderModule = (descriptor) => {
    const made = module(descriptor);
    texts.set(made, descriptor.code);
    return made;
  };
  device.createComputePipeline = () => {
    throw new Error('asked for synchronously');
  };
  device.createComputePipelineAsync = async (descriptor) => {
    const text = texts.get(descriptor.compute.module);
    invariant(text !== undefined, 'a text');
    const pipeline = compiled(descriptor);
    asked.push({ text, pipeline, answeredBefore: answered });
    await new Promise(setImmediate);
    answered++;
    return pipeline;
  };
  device.createCommandEncoder = (descriptor) => {
    const made = encoder(descriptor);
    const begin = made.beginComputePass.bind(made);
    made.beginComputePass = (of) => {
      const pass = begin(of);
      const set = pass.setPipeline.bind(pass);
      pass.setPipeline = (pipeline) => {
        ran.add(pipeline);
        set(pipeline);
      };
      return pass;
    };
    return made;
  };
  /** Since it was last called. */
  const taken = () => {
    const news = asked.splice(0);
    answered = 0;
    const used = new Set(ran);
    ran.clear();
    return { texts: news.map(({ text }) => text), asked: news, used };
  };
  return { taken };
}

const isDistinct = (texts: readonly string[]): boolean => new Set(texts).size === texts.length;

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

const openSolo = (engine: ReturnType<typeof gpuEngine>) =>
  Solo.open({
    ...{ engine, model, train, microBatches: 2 },
    read: async (_block, _kind, [from, to]) => new Float32Array(to - from).fill(0.01),
    tokens: (_step, [from, to]) => {
      const ids = new Uint32Array((to - from) * train.sequenceLength);
      return { ids, targets: ids, firstRows: null };
    },
  });

test('admission compiles no text twice; of a plan it leaves nothing to compile, and neither do other plans', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  const { taken } = watched(gpu.device);
  let kept: string | null = null;
  const memory = {
    recall: async () => kept,
    remember: async (checks: string) => {
      kept = checks;
    },
  };
  const admitted = await admit({
    ...{ gpu, model, train, wire: 'f32', memory, memoryBytes: 2 ** 26, evaluates: false, now, wallMs: () => 0 },
    adapter: { vendor: 'v', architecture: 'a', description: '', software: true, browser: 'dawn' },
    drafted: { draftedBytes: 2 ** 26, known: { memoryBytes: 2 ** 40, memoryTriedBytes: 2 ** 40 } },
  });
  expect(admitted.ok).toBe(true);
  const admission = taken();
  expect(isDistinct(admission.texts)).toBe(true);
  const engine = gpuEngine(gpu, model, train, 'f32', 'f32', false);
  const solo = await openSolo(engine);
  await solo.step(0);
  solo.close();
  const { texts, used } = taken();
  expect(texts).toEqual([]);
  // The sum of several holders' gradients is of plans with others.
  const idle = admission.asked.filter(({ pipeline }) => !used.has(pipeline));
  expect(idle).toHaveLength(1);
  expect(at(idle, 0).pipeline.label).toContain('addInto');
  for (const peers of [[ME, OTHER], [ME]]) {
    const plan = equalSplit(model, train.globalBatchSize, peers, { microBatches: 4 });
    await warmRole(engine, train, plan, ME);
    closeRole(await buildRole(engine, model, train, plan, ME, 1));
  }
  expect(taken().texts).toEqual([]);
});

test('a plan’s pipelines are asked for all at once, its forward’s first, and its first step runs each of them', async () => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const opened = await dawnDevice();
  invariant(opened.ok, 'a device');
  const { taken } = watched(opened.value.device);
  const gpu = gpuOf(opened.value);
  const solo = await openSolo(gpuEngine(gpu, model, train, 'f32', 'f32', false));
  const { asked, texts } = taken();
  expect(texts).toHaveLength(24);
  expect(isDistinct(texts)).toBe(true);
  expect(asked.filter(({ answeredBefore }) => answeredBefore > 0)).toEqual([]);
  await solo.step(0);
  const first = taken();
  expect(first.texts).toEqual([]);
  expect(new Set(asked.map(({ pipeline }) => pipeline))).toEqual(first.used);
  const stage = solo.role.stages.get(0);
  invariant(stage instanceof GpuStage, 'a stage of this device');
  const forward = new Set(stage.launchesOf(0).forward.map(({ pipeline }) => pipeline));
  expect(asked.slice(0, forward.size).map(({ pipeline }) => pipeline)).toEqual([...forward]);
  solo.close();
  // Held-out text takes one more: the loss alone.
  closeRole((await openSolo(gpuEngine(gpu, model, train))).role);
  expect(taken().asked.map(({ pipeline }) => pipeline.label)).toEqual([expect.stringContaining('crossEntropy.loss')]);
});

const split = (microBatches: number): Plan =>
  equalSplit(model, train.globalBatchSize, [ME, OTHER], { microBatches, stages: 1 });

test.each<readonly [string, Plan, typeof ADAMW | typeof MUON, RunWire]>([
  ['two stages with int8 between them', equalSplit(model, 4, [ME, OTHER], { microBatches: 4 }), ADAMW, 'int8'],
  ['coded state', { ...split(2), stateWire: 'int8' }, ADAMW, 'f32'],
  ['Muon', split(2), MUON, 'f32'],
])('[CO70] who warmed up compiles nothing more, and allocated nothing: %s', async (_name, plan, optimizer, wire) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const gpu = gpuOf(dawn.value);
  const engine = gpuEngine(gpu, model, trainBy(optimizer), wire);
  const { device } = gpu;
  const createBuffer = device.createBuffer.bind(device);
  device.createBuffer = () => {
    throw new Error('a buffer was made');
  };
  for (const peer of [ME, OTHER])
    await warmRole(engine, train, plan, peer).finally(() => {
      if (peer === OTHER) device.createBuffer = createBuffer;
    });
  const compiled = gpu.pipelines.size;
  expect(compiled).toBeGreaterThan(20);
  for (const peer of [ME, OTHER]) closeRole(await buildRole(engine, model, train, plan, peer, 1));
  expect(gpu.pipelines.size).toBe(compiled);
});
