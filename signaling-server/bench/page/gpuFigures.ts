/**
 * The figures that say how well a GPU is used: whole steps of published models, and the kernels that bound them, each
 * beside what the same device does at its best (a square product, a copy). Needs no file and no network.
 */

import { attentionBackwardKeyValue } from '../../../shaders/attention/attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from '../../../shaders/attention/attentionBackwardQuery.ts';
import { attentionForward } from '../../../shaders/attention/attentionForward.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import type { Dims, Kernel } from '../../../shaders/kernel/kernel.ts';
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import { adamw } from '../../../shaders/update/adamw.ts';
import { decayDims } from '../../../shaders/update/updateRuns.ts';
import { invariant, type Result, refusal, success, totalOf } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { OpenDevice } from '../../../web/src/gpu/device.ts';
import type { ShapeTime } from './profile.ts';
import { BENCH_SIZES, type BenchSize, type NamedSize } from './sizes.ts';
import { benchConfig, benchStep, type StepBench } from './step.ts';
import { type Peaks, peaks, timeKernel } from './timing.ts';

export interface StepFigures {
  readonly size: BenchSize;
  readonly parameters: number;
  readonly firstStepMs: number;
  readonly medianMs: number;
  readonly minMs: number;
  readonly tokensPerSecond: number;
  /** 6·parameters·tokens + 12·layers·width·T²·B a step, as is usual: the half that causality saves is not taken off. */
  readonly teraflops: number;
  readonly dispatches: number;
  readonly submits: number;
  readonly gpuBytes: number;
  /** Of the best product's rate, in this step's shapes. */
  readonly attentionForward: number;
  readonly attentionBackward: number;
  /** AdamW over the token table: of the copy's rate. */
  readonly adamw: number;
  /** Where the step's time goes; null: the adapter has no timestamps. */
  readonly shapes: readonly ShapeTime[] | null;
}

export interface GpuFigures {
  readonly adapter: OpenDevice['profile'] & { readonly family: string };
  readonly peaks: Peaks;
  readonly compute: Compute;
  readonly steps: readonly StepFigures[];
  /** Models that time ran out for. */
  readonly leftOut: readonly BenchSize[];
}

/** Side of the square product: small ones leave a GPU idle, large ones a software adapter busy for minutes. */
const SIDE = { software: 256, gpu: 2048 } as const;

interface GpuBench extends Pick<StepBench, 'steps' | 'memoryBytes' | 'compute'> {
  /** No model is begun later, by `performance.now()`. */
  readonly endsAt: number;
}

/** `memoryBytes`: of this machine, which a software adapter's are. */
export async function benchGpu(
  opened: OpenDevice,
  sizes: readonly BenchSize[],
  { steps, memoryBytes, compute, endsAt }: GpuBench,
): Promise<Result<GpuFigures>> {
  const pipelines = new PipelineCache(opened.device);
  const best = await peaks(opened, pipelines, opened.profile.software ? SIDE.software : SIDE.gpu);
  const found: StepFigures[] = [];
  const leftOut: BenchSize[] = [];
  for (const name of sizes) {
    if (performance.now() > endsAt) {
      leftOut.push(name);
      continue;
    }
    const figures = await stepFigures(opened, pipelines, best, name, { steps, memoryBytes, compute });
    if (!figures.ok) return refusal(`${name}: ${figures.reason}`);
    found.push(figures.value);
  }
  return success({
    adapter: { ...opened.profile, family: opened.family },
    peaks: best,
    compute,
    steps: found,
    leftOut,
  });
}

async function stepFigures(
  opened: OpenDevice,
  pipelines: PipelineCache,
  best: Peaks,
  name: BenchSize,
  asked: Pick<StepBench, 'steps' | 'memoryBytes' | 'compute'>,
): Promise<Result<StepFigures>> {
  const size: NamedSize = BENCH_SIZES[name];
  const model = modelFromConfig(benchConfig(size));
  invariant(model.ok, `${name} is a model`);
  const parameters = totalOf(model.value.blocks, ({ elements }) => elements);
  const profile = opened.device.features.has('timestamp-query') ? 'shapes' : false;
  const step = await benchStep(
    opened,
    { ...size, ...asked, learningRate: 1e-4, clip: true, profile, tokens: null },
    null,
  );
  if (!step.ok) return step;
  const { losses, firstStepMs, medianMs, minMs, tokensPerSecond, dispatches, submits, gpuBytes } = step.value;
  invariant(losses.every(Number.isFinite), `the losses of ${name} are numbers`);
  const tokens = size.batch * size.sequence;
  const flops = 6 * parameters * tokens + 12 * size.layers * size.width * size.sequence * tokens;
  const ms = (kernel: Kernel, dims: Dims) =>
    timeKernel(opened, forDevice(opened, 'f32', kernel), dims, pipelines, { zeros: true });
  const D = size.width / size.heads;
  const attention = { B: size.batch, T: size.sequence, H: size.heads, K: size.heads, D, scale: D ** -0.5 };
  const share = async (...kernels: readonly Kernel[]): Promise<number> => {
    let [sum, time] = [0, 0];
    for (const kernel of kernels) {
      sum += kernel.cost(attention).flops;
      time += await ms(kernel, attention);
    }
    return sum / time / 1e6 / best.productGflops;
  };
  const update = {
    offset: 0,
    count: size.vocabulary * size.width,
    gradientOffset: 0,
    momentOffset: 0,
    ...decayDims([]),
  };
  return success({
    shapes: step.value.shapes ?? null,
    ...{ size: name, parameters, firstStepMs, medianMs, minMs, tokensPerSecond, dispatches, submits, gpuBytes },
    teraflops: flops / medianMs / 1e9,
    attentionForward: await share(attentionForward),
    attentionBackward: await share(attentionBackwardQuery, attentionBackwardKeyValue),
    adamw: adamw.cost(update).bytes / (await ms(adamw, update)) / 1e6 / best.copyGigabytesPerSecond,
  });
}
