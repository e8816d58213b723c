/**
 * Which tile a product of some shape gets: data, and the only place of the choice. A pure function of (family, shape), so
 * that every donor of an adapter makes the same bits, whatever else its machine does; it is never the outcome of a timing
 * in a tab. `shoal bench kernels --tune` measures the candidates on an adapter and prints these rows anew; they are
 * written here by hand, and every row is tried against the CPU reference by the product's cases.
 */
import type { GpuClass } from './adapterFamily.ts';
import type { Layout } from './product.ts';

/** For the layouts and sizes from `from` on; of a family's rows the first that fits counts. */
interface Rule {
  readonly layouts: readonly Layout[];
  readonly from: number;
}

/** `from`: elements of the matrix that does not vary with the micro-batch. */
export interface SoftwareRule extends Rule {
  /** Most steps of K in a panel. Deeper ones read and write C less often; compile time grows faster than the depth. */
  readonly depth: number;
}

/** What a workgroup makes of C, and what each of its invocations: `depth` steps of K are staged at a time. */
export interface GpuShape {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  /** Multiples of four. */
  readonly ownRows: number;
  readonly ownColumns: number;
  /** The next stretch of K is loaded while one is multiplied. */
  readonly prefetch?: true;
  /** The operands lie in storage as halves. */
  readonly ofHalves?: true;
  /** Nothing is staged: each invocation reads its operands from storage (direct.ts). */
  readonly direct?: true;
}

/** `from`: tiles of 64×64 elements in C. Below so many, smaller tiles keep more of a GPU busy. */
interface GpuRule extends Rule, GpuShape {}

/** `from`: as a GpuRule's. */
export interface MatrixRule extends Rule {
  readonly side: number;
  /** Of a staged row along K: half as many floats as halves, so that the strips take the same workgroup memory. */
  readonly depthBytes: number;
}

const ALL: readonly Layout[] = ['NN', 'NT', 'TN'];

/** SwiftShader, two cores, 2026-11-21. A product of few weights is done sooner than a deep panel is compiled. */
export const SOFTWARE_TILES: readonly SoftwareRule[] = [
  { layouts: ALL, from: 128 * 192 + 1, depth: 128 },
  { layouts: ALL, from: 0, depth: 64 },
];

const ahead = (shape: GpuShape): GpuShape => ({ ...shape, prefetch: true });
const LARGE: GpuShape = { rows: 128, columns: 128, depth: 8, ownRows: 8, ownColumns: 8 };
const TALL: GpuShape = { rows: 128, columns: 64, depth: 16, ownRows: 8, ownColumns: 4 };
const SQUARE: GpuShape = { rows: 64, columns: 64, depth: 16, ownRows: 4, ownColumns: 4 };
const SMALL: GpuShape = ahead({ rows: 32, columns: 32, depth: 16, ownRows: 4, ownColumns: 4 });
/** For invocations of many registers: few invocations a workgroup, so that several workgroups wait for storage by turns. */
const WIDE_TALL: GpuShape = ahead({ rows: 128, columns: 64, depth: 16, ownRows: 8, ownColumns: 8 });
const WIDE_SQUARE: GpuShape = ahead({ rows: 64, columns: 64, depth: 16, ownRows: 8, ownColumns: 8 });
const HALF_SQUARE: GpuShape = ahead({ rows: 64, columns: 64, depth: 16, ownRows: 8, ownColumns: 4 });

/** llvmpipe's compiler takes twice as long for twice as many loads. */
const DIRECT: GpuShape = { rows: 32, columns: 32, depth: 4, ownRows: 4, ownColumns: 4, direct: true };

const ofSmallGrids: readonly GpuRule[] = [
  { layouts: ALL, from: 64, ...SQUARE },
  { layouts: ALL, from: 0, ...SMALL },
];
const ofTallTiles: readonly GpuRule[] = [{ layouts: ALL, from: 256, ...TALL }, ...ofSmallGrids];

/**
 * `wide`: the best of nineteen tiles in the shapes of GPT-2's steps, on an H100 (2026-11-27, BENCHMARKS.md). The others: no
 * GPU has been measured; what others found best on several, and what registers and workgroup memory allow. The larger an
 * invocation's part of the tile, the fewer its reads of workgroup memory.
 */
export const GPU_TILES: Readonly<Record<GpuClass, readonly GpuRule[]>> = {
  wide: [
    { layouts: ['NN'], from: 512, ...WIDE_TALL },
    { layouts: ['NT', 'TN'], from: 384, ...WIDE_SQUARE },
    { layouts: ALL, from: 256, ...HALF_SQUARE },
    { layouts: ALL, from: 0, ...SMALL },
  ],
  usual: ofTallTiles,
  narrow: ofSmallGrids,
  cpu: [{ layouts: ALL, from: 0, ...DIRECT }],
};

/**
 * Where an adapter has matrix units: the plain family’s sides. An H100 reaches 20 to 62 TFLOP/s by them; no others were
 * tried.
 */
export const MATRIX_TILES: readonly MatrixRule[] = [
  { layouts: ALL, from: 64, side: 64, depthBytes: 64 },
  { layouts: ALL, from: 0, side: 32, depthBytes: 64 },
];

/** What the tuning tries. */
export const SOFTWARE_CANDIDATES: readonly Pick<SoftwareRule, 'depth'>[] = [
  { depth: 32 },
  { depth: 64 },
  { depth: 128 },
];
export const GPU_CANDIDATES: readonly GpuShape[] = [
  { ...SMALL, depth: 8 },
  SMALL,
  { rows: 64, columns: 32, depth: 16, ownRows: 8, ownColumns: 4 },
  SQUARE,
  ahead(SQUARE),
  HALF_SQUARE,
  WIDE_SQUARE,
  TALL,
  ahead(TALL),
  WIDE_TALL,
  LARGE,
  ahead(LARGE),
  DIRECT,
];
export const MATRIX_CANDIDATES: readonly Pick<MatrixRule, 'side' | 'depthBytes'>[] = [
  { side: 32, depthBytes: 32 },
  { side: 32, depthBytes: 64 },
  { side: 64, depthBytes: 32 },
  { side: 64, depthBytes: 64 },
];

export function ruleFor<R extends Rule>(rows: readonly R[], layout: Layout, size: number): R {
  const found = rows.find((row) => row.layouts.includes(layout) && size >= row.from);
  if (!found) throw new Error(`invariant violated: the table has no tile for ${layout} of size ${size}`);
  return found;
}
