/**
 * The benchmark of one training step: one peer, the swarm's own stage and executor (Solo), timed from loss to loss.
 */

import { at, invariant, median, peerId, type Range, type Result, refusal, success } from '../../../swarm/base.ts';
import { NoRoom } from '../../../swarm/memory/bufferSpec.ts';
import { predictedBytes } from '../../../swarm/memory/memory.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { initialValues } from '../../../swarm/model/initialValues.ts';
import type { BlockName, Model } from '../../../swarm/model/model.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { trainSchema } from '../../../swarm/run/runFile.ts';
import type { MicroTokens } from '../../../web/src/executor/engine.ts';
import { layerTimes } from '../../../web/src/gpu/admission.ts';
import { measurable, type OpenDevice } from '../../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../../web/src/gpu/engine.ts';
import { Solo } from '../../../web/src/testing/solo.ts';
import { benchOptimizer } from './optimizer.ts';
import { type KernelTime, profile, profileByShape, type ShapeTime } from './profile.ts';

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
  /** `shapes`: by kernel and shape. */
  readonly profile: boolean | 'shapes';
  /** f16: with halves. */
  readonly compute: Compute;
  /** Of this machine, which a software adapter's are. */
  readonly memoryBytes: number;
  /** Whether the head is the token table, where the weights say; undefined: as the family has it. */
  readonly tied?: boolean;
  /** B lists of T+1 ids, the same at every step; null: seeded ones. */
  readonly tokens: readonly (readonly number[])[] | null;
}

export type BenchSizes = Pick<StepBench, 'family' | 'layers' | 'width' | 'heads' | 'sequence' | 'vocabulary'>;

/** Elements `[from, to)` of a block's initial values. */
export type ReadWeights = (block: BlockName, range: Range) => Promise<Float32Array>;

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
  readonly shapes?: readonly ShapeTime[];
}

/** The config.json of the model that is timed. A Llama, or what followed it, has as many heads of keys as of queries, and an inner width of 8/3. */
export function benchConfig({
  family,
  layers,
  width,
  heads,
  sequence,
  vocabulary,
  tied,
}: BenchSizes & Pick<StepBench, 'tied'>): Record<string, unknown> {
  const head = tied === undefined ? {} : { tie_word_embeddings: tied };
  switch (family) {
    case 'gpt2':
      return {
        model_type: family,
        n_layer: layers,
        n_embd: width,
        n_head: heads,
        n_positions: sequence,
        vocab_size: vocabulary,
        ...head,
      };
    default:
      return {
        model_type: family,
        num_hidden_layers: layers,
        hidden_size: width,
        intermediate_size: Math.ceil((8 * width) / 3 / 4) * 4,
        num_attention_heads: heads,
        max_position_embeddings: sequence,
        vocab_size: vocabulary,
        ...head,
      };
  }
}

export async function benchStep(
  given: OpenDevice,
  bench: StepBench,
  readWeights: ReadWeights | null,
): Promise<Result<StepBenchResult>> {
  const device = measurable(success(given), bench.compute);
  if (!device.ok) return device;
  const model = modelFromConfig(benchConfig(bench));
  if (!model.ok) return model;
  if (bench.profile && !given.device.features.has('timestamp-query'))
    return refusal('this adapter has no timestamp queries: there is no profile of it');
  const problem = roomProblem(given, bench, model.value);
  if (problem !== null) return refusal(problem);
  try {
    return success(await timeSteps(given, bench, model.value, readWeights));
  } catch (error) {
    if (error instanceof NoRoom) return refusal(error.message);
    throw error;
  }
}

/** Why this model's step has no room on a software adapter, or null: asked for too much, the machine ends the process. */
function roomProblem({ profile }: OpenDevice, bench: StepBench, model: Model): string | null {
  if (!profile.software) return null; // a GPU says so itself
  const alone = peerId('alone');
  const plan = equalSplit(model, bench.batch, [alone], { microBatches: 1 });
  const bytes = predictedBytes(model, plan, alone, bench.sequence, 'f32', bench.compute);
  return bytes <= bench.memoryBytes
    ? null
    : `a step of this model takes ${gigabytes(bytes)} of memory, and this machine has ${gigabytes(bench.memoryBytes)}`;
}

const gigabytes = (bytes: number): string => `${Number((bytes / 1e9).toPrecision(3))} GB`;

async function timeSteps(
  opened: OpenDevice,
  bench: StepBench,
  model: Model,
  readWeights: ReadWeights | null,
): Promise<StepBenchResult> {
  const begun = performance.now();
  const train = trainSchema.parse({
    steps: bench.steps,
    globalBatchSize: bench.batch,
    sequenceLength: bench.sequence,
    optimizer: benchOptimizer(bench.learningRate),
    gradientClipNorm: bench.clip ? 1 : null,
  });
  let tokens: MicroTokens | null = null;
  const gpu = gpuOf(opened);
  // As a donor does before it joins: until then a GPU is taken for a weak one, and its launches are cut accordingly.
  if (!opened.profile.software) {
    const now = () => performance.now() / 1000;
    await layerTimes({ gpu, model, train, memoryBytes: null, now });
  }
  const solo = await Solo.open({
    engine: gpuEngine(gpu, model, train, 'f32', bench.compute),
    model,
    train,
    read: async (block, kind, [from, to]) => {
      if (kind !== 'value') return new Float32Array(to - from);
      return readWeights ? readWeights(block, [from, to]) : initialValues(model, block, 1).slice(from, to);
    },
    // Made once the device has room for them.
    tokens: () => (tokens ??= microTokens(bench)),
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
    const times = ends.slice(1).map((end, index) => end - at(ends, index));
    const medianMs = median(times) ?? at(ends, 0) - begun;
    return {
      medianMs,
      minMs: Math.min(medianMs, ...times),
      firstStepMs: at(ends, 0) - begun,
      tokensPerSecond: (bench.batch * bench.sequence * 1000) / medianMs,
      losses,
      dispatches,
      submits,
      adapter: { ...opened.profile, family: opened.family },
      gpuBytes: solo.bytes,
      ...(bench.profile === true ? { kernels: await profile(opened.device, solo) } : {}),
      ...(bench.profile === 'shapes' ? { shapes: await profileByShape(opened.device, solo) } : {}),
    };
  } finally {
    solo.close();
  }
}

function microTokens({ batch, sequence, vocabulary, tokens }: StepBench): MicroTokens {
  invariant(
    !tokens || (tokens.length === batch && tokens.every((row) => row.length === sequence + 1)),
    'tokens are B lists of T+1 ids',
  );
  const idAt = (b: number, t: number): number => tokens?.[b]?.[t] ?? (b * 7919 + t * t * 31 + t) % vocabulary;
  const rows = batch * sequence;
  const [ids, targets] = [new Uint32Array(rows), new Uint32Array(rows)];
  for (let row = 0; row < rows; row++) {
    const [b, t] = [Math.floor(row / sequence), row % sequence];
    ids[row] = idAt(b, t);
    targets[row] = idAt(b, t + 1);
  }
  return { ids, targets, firstRows: null };
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
