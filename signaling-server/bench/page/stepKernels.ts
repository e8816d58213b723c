/**
 * Every kernel of one training step in the step's own shapes: how often, how long, at what rate beside the adapter's best,
 * which share of the step. The list is what the stage and the shards launch, so no kernel can be forgotten; each is
 * compared with its CPU reference in the same widths and few rows, as the admission does it.
 */
import type { GpuClass } from '../../../shaders/family/adapterFamily.ts';
import type { Layout } from '../../../shaders/family/product.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import { type AdapterFamily, type Dims, inTextFor, type Kernel } from '../../../shaders/kernel/kernel.ts';
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import { type Comparison, compareKernel } from '../../../shaders/kernel/verify.ts';
import { adamw, adamwShadow } from '../../../shaders/update/adamw.ts';
import { sumSquares } from '../../../shaders/update/sumSquares.ts';
import { dimsOfRun, type UpdatedTensor, updateRuns } from '../../../shaders/update/updateRuns.ts';
import { at, totalOf } from '../../../swarm/base.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import { arena } from '../../../swarm/model/layout.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { program } from '../../../swarm/model/program.ts';
import { type Compute, ELEMENT_BYTES } from '../../../swarm/precision.ts';
import type { OpenDevice } from '../../../web/src/gpu/device.ts';
import { atFewRows } from '../../../web/src/gpu/fewRows.ts';
import type { KernelCall } from '../../../web/src/gpu/kernelCall.ts';
import { microBatchCalls } from '../../../web/src/gpu/microBatchCalls.ts';
import { BENCH_SIZES, type BenchSize, type NamedSize } from './sizes.ts';
import { benchConfig } from './step.ts';
import { type Peaks, peaks, timeKernel } from './timing.ts';

export interface StepKernel {
  readonly kernel: string;
  readonly dims: Dims;
  /** Launches of this shape in one step. */
  readonly calls: number;
  /** Of one launch. */
  readonly ms: number;
  /** Of the sum over all launches of the step, each timed by itself. */
  readonly share: number;
  readonly gflops: number;
  readonly gigabytesPerSecond: number;
  /** Whether arithmetic or memory is what it is measured by. */
  readonly bound: 'compute' | 'memory';
  /** Of the adapter's best product, or of its copy. */
  readonly ofBest: number;
  readonly error: number;
  readonly right: boolean;
}

export interface StepKernels {
  readonly size: BenchSize;
  readonly peaks: Peaks;
  readonly kernels: readonly StepKernel[];
}

interface StepCase {
  readonly kernel: Kernel;
  readonly dims: Dims;
  readonly check: Dims;
  calls: number;
}

const isProduct = ({ kernel }: { readonly kernel: string }): boolean => kernel.startsWith('matmul.');
/** A slow phase of the machine meets all kernels, so each is timed again after the others. */
const ROUNDS = 3;
/** Rows at which a reference in JavaScript is cheap. */
const CHECKED_POSITIONS = 8;
/** Elements of a tensor or a block at which its reference is. */
const CHECKED_ELEMENTS = 1000;

/** With `compute` f16: the kernels over halves, which the adapter has. */
export async function benchStepKernels(
  opened: OpenDevice,
  name: BenchSize,
  compute: Compute = 'f32',
): Promise<StepKernels> {
  const size = BENCH_SIZES[name];
  const model = modelFromConfig(benchConfig(size));
  if (!model.ok) throw new Error(model.reason);
  const pipelines = new PipelineCache(opened.device);
  const apart = await peaks(opened, pipelines, 512);
  const whole = stepCases(opened, model.value, size, compute);
  const cases = whole.map((one) => ({ ...one, kernel: forDevice(opened, compute, one.kernel) }));
  const checks: Comparison[] = [];
  for (const { kernel, dims, check } of cases) {
    checks.push(await compareKernel(opened.device, opened.family, inTextFor(kernel, dims), check, { pipelines }));
  }
  const least = cases.map(() => Infinity);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, { kernel, dims }] of cases.entries()) {
      least[index] = Math.min(at(least, index), await timeKernel(opened, kernel, dims, pipelines));
    }
  }
  const rows = cases.map(({ kernel, dims, calls }, index): Omit<StepKernel, 'share' | 'ofBest'> => {
    const { error, excess } = at(checks, index);
    const ms = at(least, index);
    const { flops, bytes } = kernel.cost(dims);
    const [gflops, gigabytesPerSecond] = [flops / ms / 1e6, bytes / ms / 1e6];
    const own = Object.fromEntries(kernel.dims.map((slot) => [slot.name, dims[slot.name] ?? Number.NaN]));
    const bound = /^(matmul|attention)\./.test(kernel.name) ? 'compute' : 'memory';
    const right = excess <= 0;
    return { kernel: kernel.name, dims: own, calls, ms, gflops, gigabytesPerSecond, bound, error, right };
  });
  const total = totalOf(rows, ({ calls, ms }) => calls * ms);
  // A product of the step may beat the square one.
  const productGflops = Math.max(apart.productGflops, ...rows.filter(isProduct).map(({ gflops }) => gflops));
  const best: Peaks = { ...apart, productGflops };
  const ofBest = ({ bound, gflops, gigabytesPerSecond }: (typeof rows)[number]): number =>
    bound === 'compute' ? gflops / best.productGflops : gigabytesPerSecond / best.copyGigabytesPerSecond;
  const kernels = rows
    .map((row): StepKernel => ({ ...row, share: (row.calls * row.ms) / total, ofBest: ofBest(row) }))
    .toSorted((a, b) => b.share - a.share);
  return { size: name, peaks: best, kernels };
}

/** The products of these steps without their epilogues, each shape once. */
export function stepProducts(device: GPUDevice, names: readonly BenchSize[]): { layout: Layout; dims: Dims }[] {
  const found = new Map<string, { layout: Layout; dims: Dims }>();
  for (const name of names) {
    const size: NamedSize = BENCH_SIZES[name];
    const model = modelFromConfig(benchConfig(size));
    if (!model.ok) throw new Error(model.reason);
    for (const { kernel, dims } of callsOf(device, model.value, {
      ...size,
      samples: size.batch,
      family: 'software',
      compute: 'f32',
    })) {
      const [, layout] = /^matmul\.(NN|NT|TN)/.exec(kernel.name) ?? [];
      if (layout === 'NN' || layout === 'NT' || layout === 'TN') {
        found.set(`${layout} ${JSON.stringify(dims)}`, { layout, dims });
      }
    }
  }
  return [...found.values()];
}

/** What one micro-batch of the whole model and one update launch: each shape once, with how often it comes. */
function stepCases(
  { device, family, gpuClass }: OpenDevice,
  model: Model,
  size: NamedSize,
  compute: Compute,
): StepCase[] {
  const { batch: samples, sequence } = size;
  const large = callsOf(device, model, { samples, sequence, family, gpuClass, compute });
  const positions = Math.min(sequence, CHECKED_POSITIONS);
  const few = callsOf(device, model, { samples: 1, sequence: positions, family, gpuClass, compute });
  const checkOf = atFewRows(few, positions);
  const found = new Map<string, StepCase>();
  const add = (kernel: Kernel, dims: Dims, check: Dims): void => {
    const key = `${kernel.name} ${JSON.stringify(dims)}`;
    const known = found.get(key);
    if (known) known.calls++;
    else found.set(key, { kernel, dims, check, calls: 1 });
  };
  // A table's length is no dim of the kernels that read it, but their cases need it.
  const V = model.vocabulary;
  for (const call of large) {
    add(call.kernel, { ...call.dims, V }, { ...checkOf(call), V });
  }
  for (const block of model.blocks) {
    const { floats, segments } = arena(block, [[0, block.elements]], compute);
    const accumulate = 0;
    add(sumSquares, { n: floats, accumulate }, { n: Math.min(floats, CHECKED_ELEMENTS), accumulate });
    const tensors = segments.map(({ at, length, tensor }): UpdatedTensor => {
      const isHalf = compute === 'f16';
      return { at, length, decays: tensor.shape.length >= 2, valuesAt: at, ...(isHalf ? { shadowAt: at } : {}) };
    });
    for (const dims of updateRuns(tensors).map(dimsOfRun)) {
      const check = { ...dims, count: Math.min(dims.count, CHECKED_ELEMENTS) };
      add(compute === 'f16' ? adamwShadow : adamw, dims, check);
    }
  }
  return [...found.values()];
}

interface MicroBatch {
  readonly samples: number;
  readonly sequence: number;
  readonly family: AdapterFamily;
  readonly gpuClass?: GpuClass | undefined;
  readonly compute: Compute;
}

function callsOf(
  device: GPUDevice,
  model: Model,
  { samples, sequence, family, gpuClass, compute }: MicroBatch,
): KernelCall[] {
  const none = device.createBuffer({ label: 'no tensor', size: 16, usage: GPUBufferUsage.STORAGE });
  const slice = () => ({ buffer: none });
  const { forward, backward } = microBatchCalls(program(model, [0, model.layers]), {
    ...{
      samples,
      sequence,
      rows: samples * sequence,
      stands: model.standing !== undefined,
      width: model.width,
      vocabulary: model.vocabulary,
      bindingBytes: device.limits.maxStorageBufferBindingSize,
      elementBytes: ELEMENT_BYTES[compute],
      family,
      gpuClass,
      lossScale: 1 / (samples * sequence),
    },
    ...{ buffer: slice, value: slice, gradient: slice },
  });
  none.destroy();
  return [...forward, ...backward];
}
