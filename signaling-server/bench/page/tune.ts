/**
 * Tuning of the product's tiles: every candidate at every product of the named steps, on this adapter, and the rows of
 * shaders/family/tiles.ts that would do best. Rounds go through the candidates in turn, so that a slow phase of the machine
 * meets them all; nothing in a tab ever chooses by such a timing. What a text takes to compile it leaves out: whoever writes
 * the rows weighs it (a deep panel takes SwiftShader twice as long as a shallow one).
 */
import { largeTiles } from '../../../shaders/family/gpu.ts';
import { matmul, productOf, type Tried } from '../../../shaders/family/matmul.ts';
import type { Layout } from '../../../shaders/family/product.ts';
import { weights } from '../../../shaders/family/software.ts';
import { GPU_CANDIDATES, MATRIX_CANDIDATES, SOFTWARE_CANDIDATES } from '../../../shaders/family/tiles.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import type { AdapterFamily, Dims, Kernel } from '../../../shaders/kernel/kernel.ts';
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import { compareSampled } from '../../../shaders/kernel/sampled.ts';
import { at, totalOf } from '../../../swarm/base.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { OpenDevice } from '../../../web/src/gpu/device.ts';
import type { BenchSize } from './sizes.ts';
import { stepProducts } from './stepKernels.ts';
import { learnFromProduct, timeKernel } from './timing.ts';

const LAYOUTS: readonly Layout[] = ['NN', 'NT', 'TN'];
const ROUNDS = 3;
/** Elements that are compared with the formula. */
const CHECKED = 200;

interface TunedShape {
  readonly layout: Layout;
  readonly dims: Dims;
  /** What the table goes by: weights, or large tiles. */
  readonly size: number;
  /** Milliseconds of each candidate, in the order of the candidates; ∞ where it is wrong. */
  readonly ms: readonly number[];
  /** The table's choice. */
  readonly nowMs: number;
}

export interface Tuned {
  readonly family: AdapterFamily;
  /** Whose rows they are. */
  readonly table: Candidates['table'];
  readonly candidates: readonly Candidate['row'][];
  readonly shapes: readonly TunedShape[];
  readonly rows: readonly TunedRow[];
  /** Shapes that time ran out for. */
  readonly leftOut: number;
}

interface TunedRow {
  readonly layouts: readonly Layout[];
  readonly from: number;
  readonly candidate: number;
}

interface Candidate {
  readonly row: Readonly<Record<string, number | boolean>>;
  readonly tried: Tried;
}

interface Candidates {
  readonly table: 'SOFTWARE_TILES' | 'GPU_TILES' | 'MATRIX_TILES';
  readonly all: readonly Candidate[];
}

/** Those of the family that makes this precision's products here. */
function candidatesOf({ family, units }: OpenDevice, compute: Compute): Candidates {
  if (family === 'software') {
    return { table: 'SOFTWARE_TILES', all: SOFTWARE_CANDIDATES.map((row) => ({ row, tried: { software: row } })) };
  }
  return units.some(({ component }) => component === compute)
    ? { table: 'MATRIX_TILES', all: MATRIX_CANDIDATES.map((row) => ({ row, tried: { matrix: row } })) }
    : { table: 'GPU_TILES', all: GPU_CANDIDATES.map((shape) => ({ row: { ...shape }, tried: { gpu: shape } })) };
}

export async function tuneProducts(
  opened: OpenDevice,
  sizes: readonly BenchSize[],
  compute: Compute = 'f32',
  endsAt: number = Infinity,
): Promise<Tuned> {
  const { family, device, profile } = opened;
  const { table, all } = candidatesOf(opened, compute);
  const pipelines = new PipelineCache(device);
  await learnFromProduct(opened, pipelines);
  const check = { pipelines, count: CHECKED, now: () => performance.now() / 1000 };
  const shapes: TunedShape[] = [];
  const wanted = stepProducts(device, sizes);
  for (const { layout, dims } of wanted) {
    if (performance.now() > endsAt) break;
    const kernels: readonly Kernel[] = [...all.map(({ tried }) => matmul({ layout, tried })), matmul({ layout })].map(
      (kernel) => forDevice(opened, compute, kernel),
    );
    const least = kernels.map(() => Infinity);
    const wrong = new Set<number>();
    for (let round = 0; round < ROUNDS; round++) {
      for (const [index, kernel] of kernels.entries()) {
        // A wrong one keeps ∞.
        if (round === 0 && (await compareSampled(device, family, kernel, dims, check)).excess > 0) wrong.add(index);
        if (wrong.has(index)) continue;
        const ms = await timeKernel(opened, kernel, dims, pipelines, { zeros: !profile.software });
        least[index] = Math.min(at(least, index), ms);
      }
    }
    const product = productOf(layout, {}, dims);
    const size = family === 'software' ? weights(product) : largeTiles(dims.M ?? Number.NaN, product.n);
    shapes.push({ layout, dims, size, ms: least.slice(0, -1), nowMs: at(least, all.length) });
  }
  const rows = LAYOUTS.flatMap((layout) => {
    const own = shapes.filter((shape) => shape.layout === layout);
    return own.length > 0 ? rowsOf(layout, own) : [];
  });
  const leftOut = wanted.length - shapes.length;
  return { family, table, candidates: all.map(({ row }) => row), shapes, rows, leftOut };
}

/** A layout's rows: one candidate from some size on and one below it, which lose the least to each shape's own best. */
export function rowsOf(layout: Layout, shapes: readonly Pick<TunedShape, 'size' | 'ms'>[]): TunedRow[] {
  const loss = (some: typeof shapes, candidate: number): number =>
    totalOf(some, ({ ms }) => at(ms, candidate) / Math.min(...ms));
  const best = (some: typeof shapes): number =>
    Array.from(at(shapes, 0).ms.keys()).reduce((least, index) =>
      loss(some, index) < loss(some, least) ? index : least,
    );
  let found = { loss: Infinity, rows: [] as TunedRow[] };
  for (const from of [0, ...new Set(shapes.map(({ size }) => size))]) {
    const above = shapes.filter(({ size }) => size >= from);
    const below = shapes.filter(({ size }) => size < from);
    const [upper, lower] = [best(above), best(below)];
    const total = loss(above, upper) + loss(below, lower);
    if (total >= found.loss) continue;
    const rows: TunedRow[] = [{ layouts: [layout], from: 0, candidate: from === 0 ? upper : lower }];
    if (from > 0) rows.unshift({ layouts: [layout], from, candidate: upper });
    found = { loss: total, rows };
  }
  return found.rows;
}
