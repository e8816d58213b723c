/** What a packed wire leaves of the golden curve, and what it saves, on Dawn. */
import { beforeAll, describe, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { invariant, normal, peerId, seededRandom } from '../../swarm/base.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { withWires } from '../../swarm/planner/streamWires.ts';
import type { Compute } from '../../swarm/precision.ts';
import { packedBytes, type RunWire, WIRE_ENCODINGS } from '../../swarm/wire.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import { canHalve, type Gpu } from '../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { type DoneStep, OneProcess } from '../../web/src/testing/oneProcess.ts';
import { type GoldenCase, openGoldenCase } from './goldenCase.ts';

const PEERS = [peerId('a'), peerId('b')] as const;

/** Two peers, a stage each. */
function pairOf(golden: GoldenCase, wire: RunWire, microBatches: number, asked?: Compute): Promise<OneProcess> {
  invariant(gpu, 'a device');
  const { model, run, readState: read, tokens } = golden;
  const split = equalSplit(model, run.train.globalBatchSize, PEERS, { microBatches });
  // There in the tightest encoding, home in the next one.
  const plan = wire === 'auto' ? withWires(split, ({ from }) => (from === PEERS[0] ? 'int4' : 'int8')) : split;
  const engine = gpuEngine(gpu, model, run.train, wire, asked);
  return OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
}

async function trained(golden: GoldenCase, wire: RunWire, steps: number, asked?: Compute): Promise<DoneStep[]> {
  const pair = await pairOf(golden, wire, Math.min(4, golden.run.train.globalBatchSize), asked);
  const done: DoneStep[] = [];
  for (let step = 0; step < steps; step++) done.push(await pair.step(step));
  pair.close();
  return done;
}

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
let gpu: Gpu | null = null;
beforeAll(async () => {
  dawn = await dawnDevice();
  if (dawn.ok) gpu = gpuOf(dawn.value);
});

/** Compute passes that are begun from now on. */
function countedPasses(device: GPUDevice): { count: number; end(): void } {
  const createCommandEncoder = device.createCommandEncoder.bind(device);
  const passes = {
    count: 0,
    end: () => {
      device.createCommandEncoder = createCommandEncoder;
    },
  };
  device.createCommandEncoder = (descriptor) => {
    const encoder = createCommandEncoder(descriptor);
    const begin = encoder.beginComputePass.bind(encoder);
    encoder.beginComputePass = (pass) => {
      passes.count++;
      return begin(pass);
    };
    return encoder;
  };
  return passes;
}

/** Largest relative distance of the losses from the golden ones. */
const farthest = (done: readonly DoneStep[], { expected }: GoldenCase): number =>
  Math.max(...done.map(({ loss }, step) => Math.abs(loss / (expected[step]?.loss ?? Number.NaN) - 1)));

describe('a packed wire', () => {
  test.each([
    ['odd-llama', 'f16', 1e-4],
    ['odd-llama', 'int8', 1e-3],
    ['odd-llama', 'int4', 3e-2],
    ['odd-llama', 'auto', 3e-2],
  ] as const)('[WI10] [PL25] %s, %s: the golden curve within %d, the same bits twice', async (name, wire, bound) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase(name);
    const steps = golden.expected.length;
    const first = await trained(golden, wire, steps);
    expect(farthest(first, golden)).toBeLessThan(bound);
    expect(await trained(golden, wire, Math.min(5, steps))).toEqual(first.slice(0, 5));
    await golden.weights.close();
  });

  test('[WI10] f32 is what it was: the golden curve within 2e-6', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('odd-llama');
    expect(farthest(await trained(golden, 'f32', 5), golden)).toBeLessThan(2e-6);
    await golden.weights.close();
  });

  test.each([
    ['f32', 2e-6],
    ['f16', 1e-2],
  ] as const)('[MP2] [WI10] two donors in a run that asks for f16, the wire in %s', async (wire, exact) => {
    if (!dawn.ok || !gpu) return console.warn(dawn.ok ? 'skipped' : `skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('odd-llama');
    const done = await trained(golden, wire, 5, 'f16');
    // Donors without halves compute in f32: the loss scale is a power of two and leaves no trace.
    expect(farthest(done, golden)).toBeLessThan(canHalve(gpu.device, gpu.family) ? 1e-2 : exact);
    await golden.weights.close();
  });

  test('[WI5] int8 gradients carry over within a step, and begin with nothing at every step', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('odd-llama');
    const pair = await pairOf(golden, 'int8', 1);
    const stage = pair.roles[1]?.stages.get(1);
    invariant(stage, 'the second peer has the second stage');
    const { globalBatchSize: samples, sequenceLength } = golden.run.train;
    const random = seededRandom(1);
    const elements = samples * sequenceLength * golden.model.width;
    const words = Float32Array.from({ length: elements }, () => normal(random));
    const tokens = golden.tokens(0, [0, samples]);
    const input = { encoding: 'f32', words } as const;
    const gradient = async (): Promise<Buffer> => {
      stage.forward({ microBatch: 0, samples, input, tokens, evaluation: false });
      stage.backward(0, null, 'int8');
      const reading = await stage.readInputGradient(0);
      return reading.take((packed) => Buffer.from(packed.slice().buffer));
    };
    stage.begin(0, 1);
    const first = await gradient();
    expect((await gradient()).equals(first)).toBe(false);
    stage.begin(0, 1);
    expect((await gradient()).equals(first)).toBe(true);
    pair.close();
    await golden.weights.close();
  });

  test.each(['f16', 'int8', 'int4'] as const)(
    '%s is packed by the work that makes it: what is left is a copy',
    async (wire) => {
      if (!dawn.ok || !gpu) return console.warn(dawn.ok ? 'skipped' : `skipped: ${dawn.reason}`);
      const golden = await openGoldenCase('odd-llama');
      const pair = await pairOf(golden, wire, 1);
      const [first, second] = pair.roles.map((role, index) => role.stages.get(index));
      invariant(first && second, 'each peer has a stage');
      const samples = golden.run.train.globalBatchSize;
      const tokens = golden.tokens(0, [0, samples]);
      const passes = countedPasses(gpu.device);
      const work = { microBatch: 0, samples, evaluation: false };
      first.forward({ ...work, input: null, tokens, encoding: wire });
      expect(passes.count).toBe(1);
      const words = await (await first.readOutput(0)).take((packed) => packed.slice());
      second.forward({ ...work, input: { encoding: wire, words }, tokens });
      second.backward(0, null, wire);
      const gradient = await (await second.readInputGradient(0)).take((packed) => packed.slice());
      expect(gradient.length).toBe(words.length);
      expect(passes.count).toBe(3);
      expect(() => second.readInputGradient(1)).toThrow('no gradient to be read');
      passes.end();
      pair.close();
      await golden.weights.close();
    },
  );

  test.each(['f16', 'int8', 'int4'] as const)('%s: an evaluation has the packed stream too', async (wire) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('odd-llama');
    const pair = await pairOf(golden, wire, 2);
    const evaluated = await pair.evaluate(0);
    const { loss } = await pair.step(0);
    // The same activations to the last bit; only the loss's own kernel is another.
    expect(Math.abs(evaluated / loss - 1)).toBeLessThan(1e-7);
    pair.close();
    await golden.weights.close();
  });

  test('[PL25] bytes and memory are those of the packed stream; sums and values stay float32', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase('odd-llama');
    const { model, run } = golden;
    const { globalBatchSize: B, sequenceLength: T } = run.train;
    for (const wire of WIRE_ENCODINGS) {
      const pair = await pairOf(golden, wire, B);
      // B micro-batches of one sample, there and back; an untied model's state stays where it is.
      expect((await pair.step(0)).bytes).toBe(2 * B * packedBytes(wire, T * model.width));
      for (const role of pair.roles) expect(roleBytes(role)).toBe(predictedBytes(model, role.plan, role.peer, T, wire));
      pair.close();
    }
    const mixed = await pairOf(golden, 'auto', B);
    const [there, home] = [packedBytes('int4', T * model.width), packedBytes('int8', T * model.width)];
    expect((await mixed.step(0)).bytes).toBe(B * (there + home));
    for (const role of mixed.roles)
      expect(roleBytes(role)).toBe(predictedBytes(model, role.plan, role.peer, T, 'auto'));
    mixed.close();
    await golden.weights.close();
  });
});
