/**
 * What a tab finds out about itself before it may join: that its kernels are right, how long a layer takes at two
 * micro-batch sizes and the update of an element on the GPU and in main memory, and how much GPU memory can really be had. The times are measured anew at every visit.
 */
import { emptyWaitOf } from '../../../shaders/kernel/queueWait.ts';
import { learnRates } from '../../../shaders/kernel/watchdog.ts';
import { type Result, seededRandom, success } from '../../../swarm/base.ts';
import { NoRoom } from '../../../swarm/memory/bufferSpec.ts';
import { type StageSize, stageBuffers } from '../../../swarm/memory/memory.ts';
import type { ServerMessage } from '../../../swarm/messages/messages.ts';
import type { DeviceLimits, Profile } from '../../../swarm/messages/profile.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { aloneBytes } from '../../../swarm/planner/equalSplit.ts';
import { type Compute, computeOf } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { Stream } from '../executor/engine.ts';
import { canHalve } from './device.ts';
import { type Examinee, examine } from './examination.ts';
import { PATIENCE_SECONDS, timePasses } from './layerTime.ts';
import { mainMemorySpeed } from './mainMemorySpeed.ts';
import { bytesToTry, probeMemory, type TriedMemory } from './memoryProbe.ts';
import { createStage, type GpuStage } from './stage.ts';
import { updateSpeed } from './updateSpeed.ts';

interface Applicant extends Omit<Examinee, 'step' | 'compute'> {
  readonly train: Train;
  /** The precision that the run asks for; absent: f32. */
  readonly asked?: Compute | undefined;
  /** The most that the donor gives; null: no cap. */
  readonly memoryBytes: number | null;
  /** Of the server's welcome. */
  readonly drafted: Welcome['memory'];
  /** Whether the run has held-out text. */
  readonly evaluates: boolean;
  /** As the browser says it. */
  readonly machineGibibytes?: number | undefined;
}

type Welcome = Extract<ServerMessage, { type: 'welcome' }>;
type Prober = Omit<Applicant, 'adapter' | 'memory' | 'wire' | 'drafted' | 'evaluates' | 'wallMs'>;

/** A size far from one says best what a sample adds. The largest that fits is taken. */
const MANY_SAMPLES = [8, 4, 2];
/** A page draws no more often. */
const TELL_SECONDS = 0.25;
const PROBE_BYTES = 256 * 2 ** 20;

/** The measured profile, or the sentence that says what is wrong with this GPU. */
export async function admit(applicant: Applicant): Promise<Result<Profile>> {
  const { sequenceLength: sequence, globalBatchSize: samples } = applicant.train;
  const { evaluates } = applicant;
  const step = { sequence, samples, evaluates };
  const verdict = await examine({ ...applicant, step, compute: computeHere(applicant) });
  if (!verdict.ok) return verdict;
  const { limits } = applicant.gpu.device;
  // Before a layer says how fast this device is: an update that is cut by that has another text than a shard's.
  const onGpuSeconds = await updateSpeed(applicant.gpu, applicant.memoryBytes, applicant.now);
  const mainMemory = { ...mainMemorySpeed(applicant.now), ...(onGpuSeconds !== null && { onGpuSeconds }) };
  const layers = await layerTimes(applicant);
  const measured = { layers, mainMemory, deviceLimits: deviceLimitsOf(limits) };
  return success({ ...verdict.value, ...measured, ...(await memoryOf(applicant)) });
}

/** Past the bound of a message there is nothing to plan with. */
const MOST_LIMIT = 2 ** 50;

export function deviceLimitsOf(limits: GPUSupportedLimits): DeviceLimits {
  const bounded = (limit: number): number => Math.min(limit, MOST_LIMIT);
  return {
    bufferBytes: bounded(limits.maxBufferSize),
    bindingBytes: bounded(limits.maxStorageBufferBindingSize),
    storageBuffers: limits.maxStorageBuffersPerShaderStage,
    workgroupBytes: limits.maxComputeWorkgroupStorageSize,
    invocations: limits.maxComputeInvocationsPerWorkgroup,
  };
}

const computeHere = ({ gpu: { device, family }, asked = 'f32' }: Pick<Applicant, 'gpu' | 'asked'>): Compute =>
  computeOf(asked, canHalve(device, family));

/**
 * Forward and backward of one layer for micro-batches of one sample and of more, as far as the run has them. From then on
 * launches are cut by what was measured.
 */
export async function layerTimes(prober: Prober, isFirst = true): Promise<Profile['layers']> {
  const probe = await probeStage(prober);
  if (probe === null) return []; // not even one layer fits: the plan's own memory check says the rest
  const { stage, few, many } = probe;
  const { gpu, model, train, now } = prober;
  const { globalBatchSize, sequenceLength: sequence } = train;
  const one = await timeLayer(gpu.device, stage, model, 1, sequence, now);
  const isSlow = seconds(one) * many > PATIENCE_SECONDS;
  const largest =
    globalBatchSize === 1 ? one : await timeLayer(gpu.device, stage, model, isSlow ? few : many, sequence, now);
  const { forward, backward } = stage.launchesOf(0);
  const predicted = [...forward, ...backward].reduce((sum, launch) => sum + launch.seconds, 0);
  learnRates(gpu.device, gpu.family, predicted, seconds(largest));
  stage.close();
  // What was cut for the slowest device, which this one is not, is measured as it will run.
  const wasCut = [...forward, ...backward].some(({ dispatches }) => dispatches.length > 1);
  if (isFirst && wasCut && seconds(largest) < predicted / 2) return layerTimes(prober, false);
  return largest === one ? [one] : [one, largest];
}

/**
 * A person's look at their GPU before they decide: one layer forward and backward again and again, as it is trained here.
 * Tells the best so far, tokens a second of the whole model, four times a second; null where not even a layer fits.
 */
export async function tryLayers(
  prober: Prober,
  forSeconds: number,
  onRound: (tokensPerSecond: number, seconds: number) => void,
): Promise<number | null> {
  const probe = await probeStage(prober);
  if (probe === null) return null;
  const { gpu, model, train, now } = prober;
  const begun = now();
  let best = 0;
  let samples = 1;
  let toldAt = Number.NEGATIVE_INFINITY;
  do {
    const time = await timeLayer(gpu.device, probe.stage, model, samples, train.sequenceLength, now);
    best = Math.max(best, (samples * train.sequenceLength) / (seconds(time) * model.layers));
    if (seconds(time) * probe.many < PATIENCE_SECONDS) samples = probe.many;
    if (now() - toldAt < TELL_SECONDS) continue;
    toldAt = now();
    onRound(best, toldAt - begun);
  } while (now() - begun < forSeconds);
  onRound(best, now() - begun);
  probe.stage.close();
  return best;
}

interface Probe {
  readonly stage: GpuStage;
  /** Samples of its micro-batches. */
  readonly few: number;
  readonly many: number;
}

/** A stage of one layer; null: the device has no room for it. */
async function probeStage({ gpu, model, train, asked, memoryBytes }: Omit<Prober, 'now'>): Promise<Probe | null> {
  const { globalBatchSize, sequenceLength: sequence } = train;
  // A layer in the middle has neither embedding nor head.
  const first = model.layers > 2 ? 1 : 0;
  const compute = computeHere({ gpu, asked });
  const sizeOf = (samples: number): StageSize => ({
    layers: [first, first + 1],
    samples,
    sequence,
    slots: 1,
    compute,
  });
  const fits = (samples: number): boolean => {
    const bytes = stageBuffers(model, sizeOf(samples)).reduce((sum, buffer) => sum + buffer.bytes, 0);
    return samples <= globalBatchSize && bytes <= Math.min(PROBE_BYTES, memoryBytes ?? PROBE_BYTES);
  };
  const few = Math.min(2, globalBatchSize);
  const many = MANY_SAMPLES.find(fits) ?? few;
  const size = sizeOf(many);
  const sizes = [...new Set([1, few, many])];
  try {
    return {
      stage: await createStage(gpu, model, { size, globalBatch: globalBatchSize, sizes, evaluates: false }),
      few,
      many,
    };
  } catch (error) {
    if (!(error instanceof NoRoom)) throw error;
    return null;
  }
}

const seconds = ({ forwardSeconds, backwardSeconds }: Profile['layers'][number]): number =>
  forwardSeconds + backwardSeconds;

async function timeLayer(
  device: GPUDevice,
  stage: GpuStage,
  { width, layers }: Model,
  samples: number,
  sequence: number,
  now: () => number,
): Promise<Profile['layers'][number]> {
  const random = seededRandom(samples);
  const rows = samples * sequence;
  const words = Float32Array.from({ length: rows * width }, () => random() - 0.5);
  const stream: Stream = { encoding: 'f32', words };
  const ids = new Uint32Array(rows);
  const gradient = layers === 1 ? null : stream; // the last stage makes its own
  const input = {
    microBatch: 0,
    samples,
    input: stream,
    tokens: { ids, targets: ids, firstRows: null },
    evaluation: false,
  };
  const forward = (): void => stage.forward(input);
  const backward = (): void => stage.backward(0, gradient);
  const settled = (): Promise<void> => stage.settled();
  const times = await timePasses({ forward, backward, settled }, emptyWaitOf(device), now);
  return { samples, ...times };
}

/** What an earlier visit found holds, where that was tried as far as it would be now and is enough for this run. */
async function memoryOf({ gpu: { device }, model, train, now, ...of }: Applicant): Promise<TriedMemory> {
  const neededBytes = aloneBytes(model, train.globalBatchSize, train.sequenceLength);
  const { draftedBytes, known } = of.drafted;
  const wishes = { neededBytes, draftedBytes, limitBytes: of.memoryBytes, software: of.adapter.software };
  const memoryTriedBytes = bytesToTry({ ...wishes, machineGibibytes: of.machineGibibytes });
  const enoughBytes = Math.min(neededBytes, memoryTriedBytes);
  if (known !== null && known.memoryTriedBytes >= memoryTriedBytes && known.memoryBytes >= enoughBytes)
    return { memoryBytes: Math.min(known.memoryBytes, memoryTriedBytes), memoryTriedBytes };
  return { memoryBytes: await probeMemory(device, memoryTriedBytes, neededBytes, now), memoryTriedBytes };
}
