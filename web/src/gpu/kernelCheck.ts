/**
 * Whether this GPU computes right: each kernel of the run's model once, in this model's widths, against its CPU
 * reference. Only the number of rows is small, so that the references are cheap; the pipelines are those that the
 * stages will use, out of the same cache, so that nothing is compiled twice. A shape whose arrays are too large for a
 * reference in JavaScript is replaced by the kernel's own largest case.
 */

import { addInto } from '../../../shaders/arrays/addInto.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import type { Dims, Kernel } from '../../../shaders/kernel.ts';
import { weightGradientSlices } from '../../../shaders/matmul.ts';
import { adamw, adamwShadow } from '../../../shaders/update/adamw.ts';
import { sumSquares } from '../../../shaders/update/sumSquares.ts';
import { compareKernel } from '../../../shaders/verify.ts';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { program } from '../../../swarm/model/program.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import type { Gpu } from './device.ts';
import { backward, type Dispatch, forward, inSlices, type Places } from './operations.ts';
import { encodingsOf, packingOf } from './packing.ts';

export interface KernelCase {
  readonly kernel: Kernel;
  readonly dims: Dims;
  /** It multiplies on the adapter's matrix unit. */
  readonly isOnUnit: boolean;
}

/** Rows of the check: more than one sample's first positions teach nothing. */
const POSITIONS = 8;
/** Elements of a shard's gradient: some for each partial sum. */
const SQUARES = 16_384;
/** A reference makes some 10⁸ multiplications a second, and fills some 10⁷ elements. */
const LARGEST_ELEMENTS = 1_500_000;
const LARGEST_FLOPS = 60_000_000;
/** No check takes longer, where it may end early; the cheapest kernels come first. */
export const CHECK_SECONDS = 3.5;

/** Each kernel that a stage or a shard of this model runs, in each of the model's widths, cheapest first. */
export function kernelCases(
  { device, family, units }: Gpu,
  model: Model,
  sequence: number,
  wire: WireEncoding,
  compute: Compute = 'f32',
): KernelCase[] {
  const none = device.createBuffer({ label: 'no tensor', size: 16, usage: GPUBufferUsage.STORAGE });
  const positions = Math.min(sequence, POSITIONS);
  const places: Places = {
    samples: 1,
    sequence: positions,
    rows: positions,
    width: model.width,
    lossScale: 1 / sequence,
    elementBytes: 4,
    family,
    buffer: () => ({ buffer: none }),
    value: () => ({ buffer: none }),
    gradient: () => ({ buffer: none }),
  };
  const ends = [program(model, [0, 1]), program(model, [model.layers - 1, model.layers])];
  const dispatches = ends.flatMap(({ body, head, loss }) =>
    [...body, ...head, ...loss].flatMap((step): Dispatch[] => [
      ...forward(step, places, false),
      ...forward(step, places, true),
      ...backward(step, places),
    ]),
  );
  const sliced = family === 'gpu' ? dispatches.flatMap((dispatch) => inTwoSlices(dispatch, positions)) : [];
  const packing = ends.flatMap((end) =>
    encodingsOf(end, wire, compute).flatMap((encoding) =>
      Object.values<readonly Dispatch[]>({ ...packingOf(end, places, encoding) }).flat(),
    ),
  );
  none.destroy();
  const found = new Map<string, KernelCase>();
  const update = compute === 'f16' ? adamwShadow : adamw;
  const squares = { kernel: sumSquares, dims: { n: SQUARES } };
  const all = [...dispatches, ...sliced, ...packing, ...[update, addInto].map(ownCase), squares];
  for (const { kernel: whole, dims: given } of all) {
    const kernel = forDevice(units, compute, whole);
    // A table's length is no dim of the kernels that read it, but their cases need it.
    const dims = Number.isNaN(elements({ kernel, dims: given })) ? { ...given, V: positions } : given;
    const fitting = isCheap({ kernel, dims }) ? { kernel, dims } : ownCase(kernel);
    const isOnUnit = kernel !== forDevice([], compute, whole);
    found.set(`${kernel.name} ${JSON.stringify(fitting.dims)}`, { ...fitting, isOnUnit });
  }
  return [...found.values()].toSorted((a, b) => flops(a) - flops(b));
}

/** A weight gradient that a larger micro-batch may cut: with the few rows of the check, in two slices all the same. */
function inTwoSlices(dispatch: Dispatch, rows: number): Dispatch[] {
  if (!dispatch.kernel.name.startsWith('matmul.TN')) return [];
  const biasGradient = 'biasGradient' in dispatch.buffers;
  const roomBytes = Number.POSITIVE_INFINITY;
  const most = { ...dispatch.dims, K: Number.MAX_SAFE_INTEGER };
  const { count, floats } = weightGradientSlices('gpu', most, { biasGradient, roomBytes });
  if (count === 1) return [];
  const steps = Math.ceil(rows / 2);
  return inSlices(dispatch, { steps, count: Math.ceil(rows / steps), floats }, dispatch.buffers.c);
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

/** How many were compared; or what is wrong with this GPU. `now`: seconds. */
export async function checkKernels(
  { device, family, pipelines }: Pick<Gpu, 'device' | 'family' | 'pipelines'>,
  cases: readonly Shaped[],
  now: () => number,
  forSeconds: number = CHECK_SECONDS,
): Promise<Result<number>> {
  try {
    await pipelines.precompile(cases.map(({ kernel, dims }) => [kernel, kernel.variant(family, dims)]));
    const end = now() + forSeconds;
    let checked = 0;
    for (const { kernel, dims } of cases) {
      if (checked > 0 && now() > end) break;
      const { excess, where } = await compareKernel(device, family, kernel, dims, { pipelines });
      if (excess > 0) return refusal(`${kernel.name} is wrong in the shape ${JSON.stringify(dims)}: ${where}`);
      checked++;
    }
    return success(checked);
  } catch (error) {
    return refusal(error instanceof Error ? error.message : String(error));
  }
}
