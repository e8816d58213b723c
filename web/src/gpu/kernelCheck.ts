/**
 * Whether this GPU computes right: each kernel of the run's model once, in this model's widths, against its CPU
 * reference. Only the number of rows is small, so that the references are cheap; the pipelines are those that the
 * stages will use, of whatever micro-batch size, out of the same cache, so that nothing is compiled twice. A shape whose
 * arrays are too large for a reference in JavaScript is replaced by the kernel's own largest case. Products and attention
 * are then compared in the run's own shapes, at some elements (realShapes.ts).
 */

import { addInto } from '../../../shaders/arrays/addInto.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import { type Dims, inTextFor, type Kernel } from '../../../shaders/kernel/kernel.ts';
import { textKey } from '../../../shaders/kernel/text.ts';
import { compareKernel } from '../../../shaders/kernel/verify.ts';
import { adamw, adamwShadow } from '../../../shaders/update/adamw.ts';
import { muonApply, muonApplyShadow, muonBegin, muonPolynomial, muonStart } from '../../../shaders/update/muon.ts';
import { sumSquares } from '../../../shaders/update/sumSquares.ts';
import { addInt8 } from '../../../shaders/wire/addInt8.ts';
import { packInt8Difference, packInt8Rest } from '../../../shaders/wire/packInt8.ts';
import { given, type Result, refusal, success } from '../../../swarm/base.ts';
import { hasMatrices } from '../../../swarm/model/matrices.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { type Program, program } from '../../../swarm/model/program.ts';
import { type Compute, ELEMENT_BYTES } from '../../../swarm/precision.ts';
import { type CodedState, type RunWire, WIRE_ENCODINGS } from '../../../swarm/wire.ts';
import type { Gpu } from './device.ts';
import { atFewRows } from './fewRows.ts';
import type { KernelCall } from './kernelCall.ts';
import { microBatchCalls } from './microBatchCalls.ts';
import { encodingsOf, packingOf } from './packing.ts';
import type { Places } from './places.ts';
import { checkRealShapes } from './realShapes.ts';

export interface KernelCase {
  readonly kernel: Kernel;
  readonly dims: Dims;
  /** It multiplies on the adapter's matrix unit. */
  readonly isOnUnit: boolean;
  /** A shape of the run, compared at some elements (realShapes.ts). */
  readonly isReal?: true;
}

/** Rows of the check: more than one sample's first positions teach nothing. */
const POSITIONS = 8;
/** Elements of a shard's gradient: some for each partial sum. */
const SQUARES = 16_384;
/** Elements of a piece of coded state: one that is read by fours, and one that is read one by one. */
const CODED = [4_096, 4_095];
/** A reference makes some 10⁸ multiplications a second, and fills some 10⁷ elements. */
const LARGEST_ELEMENTS = 1_500_000;
const LARGEST_FLOPS = 60_000_000;
/** No check takes longer, where it may end early: that of few rows, the cheapest kernels first, and both. */
const FEW_ROWS_SECONDS = 3.5;
export const CHECK_SECONDS = 5;

/** A step of the run: T positions a sample, and as many samples as a micro-batch may have at most. */
export interface StepShape {
  readonly sequence: number;
  readonly samples: number;
  /** Whether the run has held-out text; absent: it does. */
  readonly evaluates?: boolean;
}

/**
 * Each kernel that a stage or a shard of this model runs, in each of the model's widths and each text that it has for a
 * micro-batch of one sample or more, cheapest first; then, largest first, the texts that are compared in the run's shapes.
 */
export function kernelCases(
  gpu: Pick<Gpu, 'device' | 'family' | 'units' | 'gpuClass' | 'bindingBytes'>,
  model: Model,
  { sequence, samples, evaluates = true }: StepShape,
  wire: RunWire,
  compute: Compute = 'f32',
  stateWire?: CodedState,
): KernelCase[] {
  const { device, family, gpuClass } = gpu;
  const wires = wire === 'auto' ? WIRE_ENCODINGS : [wire];
  const none = device.createBuffer({ label: 'no tensor', size: 16, usage: GPUBufferUsage.STORAGE });
  const slice = { buffer: none };
  const placesOf = (batch: number, positions: number): Places => ({
    ...{ samples: batch, sequence: positions, rows: batch * positions },
    ...{ width: model.width, lossScale: 1 / sequence, elementBytes: ELEMENT_BYTES[compute], family, gpuClass },
    ...{ vocabulary: model.vocabulary, bindingBytes: gpu.bindingBytes, stands: model.standing !== undefined },
    ...{ buffer: () => slice, value: () => slice, gradient: () => slice, ...given({ beta: model.beta }) },
  });
  const ends = [program(model, [0, 1]), program(model, [model.layers - 1, model.layers])];
  /** Where layers are computed again their ends may go by runs of rows. */
  const inRuns = ({ samples, sequence }: Places) =>
    program(model, [0, 1], { recompute: [0], samples, sequence, compute });
  const callsOf = (places: Places): KernelCall[] =>
    [...ends, inRuns(places)].flatMap((end) => [
      ...passesOf(end, places, evaluates),
      ...encodingsOf(end, wires, compute).flatMap((encoding) =>
        Object.values<readonly KernelCall[]>({ ...packingOf(end, places, encoding) }).flat(),
      ),
    ]);
  const positions = Math.min(sequence, POSITIONS);
  const checked = atFewRows(callsOf(placesOf(1, positions)), positions);
  const found = new Map<string, KernelCase>();
  const real = new Map<string, KernelCase>();
  const add = (whole: Kernel, given: Dims, inRun: Dims = given): void => {
    const own = forDevice(gpu, compute, whole);
    const kernel = inTextFor(own, inRun);
    // A table's length is no dim of the kernels that read it, but their cases need it.
    const dims = Number.isNaN(elements({ kernel, dims: given })) ? { ...given, V: positions } : given;
    const fitting = isCheap({ kernel, dims }) ? { kernel, dims } : ownCase(own);
    const isOnUnit = own !== forDevice({ ...gpu, units: [] }, compute, whole);
    const key = textKey(fitting.kernel, fitting.dims, { family, inBoxes: false });
    found.set(`${key} ${JSON.stringify(fitting.dims)}`, { ...fitting, isOnUnit });
    if (!own.sampled) return;
    const ofText = textKey(own, inRun, { family, inBoxes: false });
    const known = real.get(ofText);
    const here = { kernel: own, dims: inRun, isOnUnit, isReal: true } as const;
    if (!known || flops(known) < flops(here)) real.set(ofText, here);
  };
  for (const batch of batchesUpTo(samples)) {
    for (const call of callsOf(placesOf(batch, sequence))) {
      add(call.kernel, checked(call), call.dims);
    }
  }
  none.destroy();
  for (const one of [...updateKernels(model, compute), addInto].map(ownCase)) add(one.kernel, one.dims);
  add(sumSquares, { n: SQUARES, accumulate: 0 });
  if (stateWire) for (const n of CODED) for (const one of [packInt8Rest, packInt8Difference, addInt8]) add(one, { n });
  const few = [...found.values()].toSorted((a, b) => flops(a) - flops(b));
  return [...few, ...[...real.values()].toSorted((a, b) => flops(b) - flops(a))];
}

function passesOf(end: Program, places: Places, evaluates: boolean): KernelCall[] {
  const { evaluation, ...trained } = microBatchCalls(end, places);
  return [...Object.values<readonly KernelCall[]>(trained).flat(), ...(evaluates ? evaluation : [])];
}

/** What updates the run's state, but for its products and norms. */
function updateKernels(model: Model, compute: Compute): Kernel[] {
  const isShadowed = compute === 'f16';
  const own: Kernel = isShadowed ? adamwShadow : adamw;
  if (!hasMatrices(model)) return [own];
  return [own, muonBegin, muonStart, muonPolynomial, isShadowed ? muonApplyShadow : muonApply];
}

/** A text goes by ranges of rows, the last of them at least twice as long as what is below: each holds one of these. */
function batchesUpTo(samples: number): number[] {
  const sizes = [samples];
  for (let size = 1; size < samples; size *= 2) sizes.push(size);
  return sizes;
}

type Shaped = Pick<KernelCase, 'kernel' | 'dims'>;

const flops = ({ kernel, dims }: Shaped): number => kernel.cost(dims).flops;
const elements = ({ kernel, dims }: Shaped): number =>
  Object.values(kernel.sizes(dims)).reduce((sum, size) => sum + size, 0);
const isCheap = (one: Shaped): boolean => elements(one) <= LARGEST_ELEMENTS && flops(one) <= LARGEST_FLOPS;

/** The largest case of a kernel's own table that is cheap. */
function ownCase(kernel: Kernel): Shaped {
  const cases = kernel.cases.map((dims) => ({ kernel, dims })).filter(isCheap);
  return cases.reduce((best, next) => (elements(next) > elements(best) ? next : best));
}

interface CheckRoom {
  readonly forSeconds?: number;
  /** The most that the donor gives; null: no cap. */
  readonly memoryBytes?: number | null | undefined;
}

/**
 * Which were compared; or what is wrong with this GPU. `now`: seconds. All pipelines are asked for at once, and are there before
 * the first case: what a driver needs for that is not the check's time, and it may do nothing else meanwhile.
 */
export async function checkKernels<Case extends Shaped & Partial<KernelCase>>(
  gpu: Pick<Gpu, 'device' | 'family' | 'pipelines'>,
  cases: readonly Case[],
  now: () => number,
  { forSeconds = CHECK_SECONDS, memoryBytes = null }: CheckRoom = {},
): Promise<Result<readonly Case[]>> {
  const { device, family, pipelines } = gpu;
  const few = cases.filter(({ isReal }) => !isReal);
  try {
    const wanted = few.map(({ kernel, dims }) => [kernel, dims] as const);
    await pipelines.precompile(wanted, family);
    const right: Case[] = [];
    let seconds = 0;
    for (const one of few) {
      if (right.length > 0 && seconds > (forSeconds * FEW_ROWS_SECONDS) / CHECK_SECONDS) break;
      const { kernel, dims } = one;
      const begun = now();
      const { excess, where } = await compareKernel(device, family, kernel, dims, { pipelines });
      if (excess > 0) return refusal(`${kernel.name} is wrong in the shape ${JSON.stringify(dims)}: ${where}`);
      seconds += now() - begun;
      right.push(one);
    }
    const shapes = cases.filter(({ isReal }) => isReal);
    const endSeconds = now() + forSeconds - seconds;
    const real = await checkRealShapes(gpu, shapes, { memoryBytes, now, endSeconds });
    return real.ok ? success([...right, ...real.value]) : real;
  } catch (error) {
    return refusal(error instanceof Error ? error.message : String(error));
  }
}
