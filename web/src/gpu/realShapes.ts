/**
 * Kernels as the run will run them: each text in the largest shape that it has there, at some elements drawn at random. What
 * a check of few rows cannot see is here: whole tiles, long sums, many keys. The largest products come first. On a device
 * that is slow, or has little memory, a shape has as many rows as time and memory allow.
 */
import { type Dims, inTextFor, type Kernel } from '../../../shaders/kernel/kernel.ts';
import { compareSampled, OutOfRoom } from '../../../shaders/kernel/sampled.ts';
import { learnRates, ratesOf } from '../../../shaders/kernel/watchdog.ts';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import type { Gpu } from './device.ts';

interface RealShape {
  readonly kernel: Kernel;
  readonly dims: Dims;
}

const ELEMENTS = 2000;
/** Multiplications of a formula in JavaScript: a third of a second. */
const MOST_STEPS = 3e7;
/** Of all tensors of a shape; a donor that gives less gives half of it. */
const MOST_BYTES = 256 * 2 ** 20;
/** Of one run: until a rate was measured, by what is assumed of any device. */
const RUN_SECONDS = 0.25;
/** Some browsers' clocks are so coarse: less was not measured. */
const CLOCK_SECONDS = 1e-3;

interface Room {
  /** The most that the donor gives; null or absent: no cap. */
  readonly memoryBytes?: number | null | undefined;
  readonly now: () => number;
  /** No run begins later. */
  readonly endSeconds: number;
}

/**
 * Which were compared; or what is wrong with this GPU. One that is far faster than it was taken for is known as such from
 * then on, so that neither the next shapes nor the layer that is measured next are cut, in texts that no plan will run.
 */
export async function checkRealShapes<Shape extends RealShape>(
  gpu: Pick<Gpu, 'device' | 'family' | 'pipelines'>,
  shapes: readonly Shape[],
  { memoryBytes, now, endSeconds }: Room,
): Promise<Result<readonly Shape[]>> {
  const { device, family, pipelines } = gpu;
  const mostBytes = Math.min(MOST_BYTES, (memoryBytes ?? Number.POSITIVE_INFINITY) / 2);
  const checked = new Set<Shape>();
  for (const shape of shapes) {
    let flops = 0;
    for (;;) {
      if (now() > endSeconds) return success([...checked]);
      const rate = ratesOf(device, family).flopsPerSecond;
      const fitting = inRoom(shape, { device, mostBytes, mostFlops: rate * RUN_SECONDS });
      // The same rows again would say nothing new.
      if (fitting === null || fitting.kernel.cost(fitting.dims).flops <= flops) break;
      const { kernel, dims } = fitting;
      flops = kernel.cost(dims).flops;
      const count = Math.max(1, Math.min(ELEMENTS, Math.floor(MOST_STEPS / stepsOf(dims))));
      const run = await compareSampled(device, family, kernel, dims, { pipelines, count, now }).catch(noRoom);
      if (run === null) break;
      if (run.excess > 0) return refusal(`${kernel.name} is wrong in the shape ${JSON.stringify(dims)}: ${run.where}`);
      checked.add(shape);
      if (run.seconds <= 0 || fitting.isWhole) break;
      const seconds = Math.max(run.seconds, CLOCK_SECONDS);
      if (flops / seconds < 2 * rate) break;
      learnRates(device, family, flops / rate, seconds);
    }
  }
  return success([...checked]);
}

function noRoom(error: unknown): null {
  if (error instanceof OutOfRoom) return null;
  throw error;
}

/** Of an element by its formula. */
const stepsOf = ({ K = 1, T, D }: Dims): number => (T !== undefined && D !== undefined ? 4 * T : K);

interface Fitting extends RealShape {
  readonly isWhole: boolean;
}

/** With as many rows as fit; null: not even one does. The text is the whole shape's. */
function inRoom(
  { kernel, dims }: RealShape,
  { device, mostBytes, mostFlops }: { device: GPUDevice; mostBytes: number; mostFlops: number },
): Fitting | null {
  const rows = rowsName(kernel);
  const all = dims[rows] ?? 1;
  const largest = Math.min(device.limits.maxStorageBufferBindingSize, device.limits.maxBufferSize);
  const fits = (count: number): boolean => {
    const some = { ...dims, [rows]: count };
    const bytes = Object.values(kernel.sizes(some)).map((size) => 4 * size);
    return Math.max(...bytes) <= largest && bytes.reduce((sum, size) => sum + size, 0) <= mostBytes;
  };
  const share = Math.min(1, mostFlops / kernel.cost(dims).flops);
  let count = Math.max(1, Math.floor(share * all));
  while (count > 1 && !fits(count)) count = Math.floor(count / 2);
  if (!fits(count)) return null;
  return { kernel: inTextFor(kernel, dims), dims: { ...dims, [rows]: count }, isWhole: count === all };
}

/** The dim that grows with the micro-batch. */
const rowsName = ({ name }: Kernel): 'B' | 'K' | 'M' =>
  name.startsWith('attention.') ? 'B' : name.startsWith('matmul.TN') ? 'K' : 'M';
