/**
 * The benchmark of one training step: one peer, the swarm's own stage and executor (Solo), timed from loss to loss. The
 * profile is a run apart: every launch in a pass of its own, between two timestamps.
 */
import { encodeLaunch, type Launch } from '../../../shaders/launch.ts';
import { assertNever, invariant, type Range } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { initialValues } from '../../../swarm/model/initialValues.ts';
import type { BlockName, Model } from '../../../swarm/model/model.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { trainSchema } from '../../../swarm/run/runFile.ts';
import type { MicroTokens } from '../executor/engine.ts';
import { Solo } from '../executor/solo.ts';
import { layerTimes } from '../gpu/admission.ts';
import { canHalve, NO_HALVES, type OpenDevice } from '../gpu/device.ts';
import { gpuEngine, gpuOf } from '../gpu/engine.ts';
import { GpuShards } from '../gpu/shards.ts';
import { GpuStage } from '../gpu/stage.ts';

export interface StepBench {
  readonly family: Model['family'];
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly sequence: number;
  readonly batch: number;
  readonly vocabulary: number;
  readonly steps: number;
  readonly learningRate: number;
  readonly clip: boolean;
  readonly profile: boolean;
  /** f16: with halves. */
  readonly compute: Compute;
  /** B lists of T+1 ids, the same at every step; null: seeded ones. */
  readonly tokens: readonly (readonly number[])[] | null;
}

export type BenchSizes = Pick<StepBench, 'family' | 'layers' | 'width' | 'heads' | 'sequence' | 'vocabulary'>;

/** Elements `[from, to)` of a block's initial values. */
export type ReadWeights = (block: BlockName, range: Range) => Promise<Float32Array>;

export interface KernelTime {
  readonly name: string;
  readonly calls: number;
  readonly ms: number;
}

export interface StepBenchResult {
  readonly medianMs: number;
  readonly minMs: number;
  readonly firstStepMs: number;
  readonly tokensPerSecond: number;
  readonly losses: readonly number[];
  /** Of one step. */
  readonly dispatches: number;
  readonly submits: number;
  readonly adapter: OpenDevice['profile'] & { readonly family: string };
  readonly gpuBytes: number;
  readonly kernels?: readonly KernelTime[];
}

/** The config.json of the model that is timed. A Llama has as many heads of keys as of queries, and an inner width of 8/3. */
export function benchConfig({
  family,
  layers,
  width,
  heads,
  sequence,
  vocabulary,
}: BenchSizes): Record<string, unknown> {
  switch (family) {
    case 'gpt2':
      return {
        model_type: family,
        n_layer: layers,
        n_embd: width,
        n_head: heads,
        n_positions: sequence,
        vocab_size: vocabulary,
      };
    case 'llama':
      return {
        model_type: family,
        num_hidden_layers: layers,
        hidden_size: width,
        intermediate_size: Math.ceil((8 * width) / 3 / 4) * 4,
        num_attention_heads: heads,
        max_position_embeddings: sequence,
        vocab_size: vocabulary,
      };
    default:
      return assertNever(family);
  }
}

export async function benchStep(
  opened: OpenDevice,
  bench: StepBench,
  readWeights: ReadWeights | null,
): Promise<StepBenchResult> {
  const begun = performance.now();
  const model = modelFromConfig(benchConfig(bench));
  if (!model.ok) throw new Error(model.reason);
  const train = trainSchema.parse({
    steps: bench.steps,
    globalBatchSize: bench.batch,
    sequenceLength: bench.sequence,
    optimizer: { type: 'adamw', learningRate: bench.learningRate, betas: [0.9, 0.95], epsilon: 1e-8, weightDecay: 0.1 },
    gradientClipNorm: bench.clip ? 1 : null,
  });
  const tokens = microTokens(bench);
  const gpu = gpuOf(opened);
  if (bench.compute === 'f16' && !canHalve(opened.device, opened.family)) throw new Error(NO_HALVES);
  // As a donor does before it joins: until then a GPU is taken for a weak one, and its launches are cut accordingly.
  if (!opened.profile.software) {
    const now = () => performance.now() / 1000;
    await layerTimes({ gpu, model: model.value, train, memoryBytes: null, now });
  }
  const solo = await Solo.open({
    engine: gpuEngine(gpu, model.value, train, 'f32', bench.compute),
    model: model.value,
    train,
    read: async (block, kind, [from, to]) => {
      if (kind !== 'value') return new Float32Array(to - from);
      return readWeights ? readWeights(block, [from, to]) : initialValues(model.value, block, 1).slice(from, to);
    },
    tokens: () => tokens,
  });
  try {
    const counts = countCalls(opened.device);
    const ends: number[] = [];
    const losses: number[] = [];
    for (let step = 0; step < bench.steps; step++) {
      counts.reset();
      const { loss } = await solo.step(step);
      ends.push(performance.now());
      losses.push(loss);
    }
    const { dispatches, submits } = counts.end();
    const times = ends.slice(1).map((end, index) => end - ends[index]);
    const sorted = times.toSorted((a, b) => a - b);
    const medianMs = sorted[Math.floor(sorted.length / 2)] ?? ends[0] - begun;
    return {
      medianMs,
      minMs: sorted[0] ?? medianMs,
      firstStepMs: ends[0] - begun,
      tokensPerSecond: (bench.batch * bench.sequence * 1000) / medianMs,
      losses,
      dispatches,
      submits,
      adapter: { ...opened.profile, family: opened.family },
      gpuBytes: solo.bytes,
      ...(bench.profile ? { kernels: await profile(opened.device, solo) } : {}),
    };
  } finally {
    solo.close();
  }
}

function microTokens({ batch, sequence, vocabulary, tokens }: StepBench): MicroTokens {
  const rows =
    tokens ??
    Array.from({ length: batch }, (_, b) =>
      Array.from({ length: sequence + 1 }, (_, t) => (b * 7919 + t * t * 31 + t) % vocabulary),
    );
  invariant(rows.length === batch && rows.every((row) => row.length === sequence + 1), 'tokens are B lists of T+1 ids');
  return {
    ids: Uint32Array.from(rows.flatMap((row) => row.slice(0, sequence))),
    targets: Uint32Array.from(rows.flatMap((row) => row.slice(1))),
  };
}

/** Counts what goes to the device between two resets. */
function countCalls(device: GPUDevice) {
  let dispatches = 0;
  let submits = 0;
  const submit = device.queue.submit.bind(device.queue);
  const createCommandEncoder = device.createCommandEncoder.bind(device);
  device.queue.submit = (buffers) => {
    submits++;
    return submit(buffers);
  };
  device.createCommandEncoder = (descriptor) => {
    const encoder = createCommandEncoder(descriptor);
    const beginComputePass = encoder.beginComputePass.bind(encoder);
    encoder.beginComputePass = (passDescriptor) => {
      const pass = beginComputePass(passDescriptor);
      const dispatch = pass.dispatchWorkgroups.bind(pass);
      pass.dispatchWorkgroups = (x, y, z) => {
        dispatches++;
        return dispatch(x, y, z);
      };
      return pass;
    };
    return encoder;
  };
  return {
    reset() {
      dispatches = 0;
      submits = 0;
    },
    end() {
      device.queue.submit = submit;
      device.createCommandEncoder = createCommandEncoder;
      return { dispatches, submits };
    },
  };
}

/** One step's launches, each timed by itself on the GPU; summed by kernel, longest first. */
async function profile(device: GPUDevice, solo: Solo): Promise<KernelTime[]> {
  if (!device.features.has('timestamp-query')) throw new Error('this adapter has no timestamp queries');
  const launches: Launch[] = [];
  for (const stage of solo.role.stages.values()) {
    invariant(stage instanceof GpuStage, 'a stage on a GPU');
    for (const { id } of solo.role.plan.microBatches) {
      const { forward, recompute, backward } = stage.launchesOf(id);
      launches.push(...forward, ...recompute, ...backward);
    }
  }
  invariant(solo.role.shards instanceof GpuShards, 'shards on a GPU');
  const { norms, update } = solo.role.shards.launches();
  launches.push(...norms, ...update);

  const count = launches.length * 2;
  const querySet = device.createQuerySet({ type: 'timestamp', count });
  const resolved = device.createBuffer({
    label: 'profile',
    size: count * 8,
    usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
  });
  const readback = device.createBuffer({
    label: 'profile readback',
    size: count * 8,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  const encoder = device.createCommandEncoder({ label: 'profile' });
  launches.forEach((launch, index) => {
    const pass = encoder.beginComputePass({
      timestampWrites: { querySet, beginningOfPassWriteIndex: index * 2, endOfPassWriteIndex: index * 2 + 1 },
    });
    encodeLaunch(pass, launch);
    pass.end();
  });
  encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, readback, 0, count * 8);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(GPUMapMode.READ);
  const stamps = new BigUint64Array(readback.getMappedRange().slice(0));
  const sums = new Map<string, KernelTime>();
  launches.forEach(({ kernel }, index) => {
    const ms = Number(stamps[index * 2 + 1] - stamps[index * 2]) / 1e6;
    const known = sums.get(kernel.name) ?? { name: kernel.name, calls: 0, ms: 0 };
    sums.set(kernel.name, { name: kernel.name, calls: known.calls + 1, ms: known.ms + ms });
  });
  for (const buffer of [resolved, readback]) buffer.destroy();
  querySet.destroy();
  return [...sums.values()].sort((a, b) => b.ms - a.ms);
}
