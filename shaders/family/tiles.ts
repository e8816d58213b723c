/**
 * Which tile a product of some shape gets: data, and the only place of the choice. A pure function of (family, shape), so
 * that every donor of an adapter makes the same bits, whatever else its machine does; it is never the outcome of a timing
 * in a tab. `shoal bench kernels --tune` measures the candidates on an adapter and prints these rows anew; they are
 * written here by hand, and every row is tried against the CPU reference by the product's cases.
 */
import type { Layout } from './product.ts';

/** For the layouts and sizes from `from` on; of a family's rows the first that fits counts. */
interface Rule {
  readonly layouts: readonly Layout[];
  readonly from: number;
  /** Only where nothing but A, B and C is read or written: as `hasRoomForEpilogue` wants it of a large tile. */
  readonly bare?: boolean;
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
  readonly ownRows: number;
  /** A multiple of four. */
  readonly ownColumns: number;
}

/** `from`: tiles of 64×64 elements in C. Below so many, smaller tiles keep more of a GPU busy. */
interface GpuRule extends Rule, GpuShape {}

/** `from`: as a GpuRule's. */
export interface MatrixRule extends Rule {
  readonly side: number;
  /** Of a staged row along K: half as many floats as halves, so that the strips take the same workgroup memory. */
  readonly depthBytes: number;
}

/** With more elements an invocation has no registers for what an epilogue reads and writes. */
const MOST_WITH_EPILOGUE = 16;
export const hasRoomForEpilogue = ({ ownRows, ownColumns }: GpuShape): boolean =>
  ownRows * ownColumns <= MOST_WITH_EPILOGUE;

const ALL: readonly Layout[] = ['NN', 'NT', 'TN'];

/** SwiftShader, two cores, 2026-11-21. A product of few weights is done sooner than a deep panel is compiled. */
export const SOFTWARE_TILES: readonly SoftwareRule[] = [
  { layouts: ALL, from: 128 * 192 + 1, depth: 128 },
  { layouts: ALL, from: 0, depth: 64 },
];

const LARGE: GpuShape = { rows: 64, columns: 128, depth: 16, ownRows: 8, ownColumns: 4 };
const SQUARE: GpuShape = { rows: 64, columns: 64, depth: 16, ownRows: 4, ownColumns: 4 };
const SMALL: GpuShape = { rows: 32, columns: 32, depth: 16, ownRows: 4, ownColumns: 4 };

/**
 * No GPU has been measured: what other trainers found best on several. 64×64×16, twice as wide where no epilogue needs the
 * registers and the grid stays large, and less where the grid is small.
 */
export const GPU_TILES: readonly GpuRule[] = [
  { layouts: ALL, from: 256, bare: true, ...LARGE },
  { layouts: ALL, from: 64, ...SQUARE },
  { layouts: ALL, from: 0, ...SMALL },
];

/** Where an adapter has matrix units. None has been measured: the sides are the plain family's. */
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
  { rows: 32, columns: 64, depth: 16, ownRows: 4, ownColumns: 8 },
  { ...SQUARE, depth: 8 },
  SQUARE,
  LARGE,
];
export const MATRIX_CANDIDATES: readonly Pick<MatrixRule, 'side' | 'depthBytes'>[] = [
  { side: 32, depthBytes: 32 },
  { side: 32, depthBytes: 64 },
  { side: 64, depthBytes: 32 },
  { side: 64, depthBytes: 64 },
];

export function ruleFor<R extends Rule>(rows: readonly R[], layout: Layout, size: number, isBare = true): R {
  const found = rows.find((row) => row.layouts.includes(layout) && size >= row.from && (isBare || row.bare !== true));
  if (!found) throw new Error(`invariant violated: the table has no tile for ${layout} of size ${size}`);
  return found;
}
