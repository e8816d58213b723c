/**
 * The grid of workgroups of a launch, and its boxes: a grid that is larger than WebGPU allows, or takes longer than a
 * watchdog waits, is run box by box. A box runs the same text and has dims that say where it begins, so every workgroup
 * computes what it computes in one dispatch: a cut never changes a bit. A whole dispatch has no such dims.
 */
import { at, invariant } from '../../swarm/base.ts';

/** WebGPU's guaranteed maxComputeWorkgroupsPerDimension. */
export const MAX_WORKGROUPS_PER_DIMENSION = 65_535;

export type Grid = readonly [number, number, number];

/** `size` workgroups from `first` on. */
export interface Box {
  readonly first: Grid;
  readonly size: Grid;
}

/** The fewest boxes that WebGPU allows and, as far as the grid has workgroups for it, at least `least`. */
export function boxesOf(grid: Grid, least: number): Box[] {
  invariant(
    grid.every((count) => Number.isInteger(count) && count >= 1),
    `a grid of ${grid.join('×')} workgroups`,
  );
  const cuts: [number, number, number] = [0, 0, 0];
  grid.forEach((count, axis) => {
    cuts[axis] = Math.ceil(count / MAX_WORKGROUPS_PER_DIMENSION);
  });
  const pieces = (): number => cuts[0] * cuts[1] * cuts[2];
  while (pieces() < least) {
    // Along the axis with the longest boxes: rows of samples, heads or tiles, hardly ever a remainder.
    const axis = [0, 1, 2].reduce((best, next) =>
      at(grid, next) / at(cuts, next) > at(grid, best) / at(cuts, best) ? next : best,
    );
    if (at(cuts, axis) >= at(grid, axis)) break;
    cuts[axis] = Math.min(at(grid, axis), Math.max(at(cuts, axis) + 1, Math.ceil((least * at(cuts, axis)) / pieces())));
  }
  const [xs, ys, zs] = [spans(grid[0], cuts[0]), spans(grid[1], cuts[1]), spans(grid[2], cuts[2])];
  return zs.flatMap((z) =>
    ys.flatMap((y) => xs.map((x): Box => ({ first: [x[0], y[0], z[0]], size: [x[1], y[1], z[1]] }))),
  );
}

/** `[first, length]` of as many runs as equal as can be. */
function spans(count: number, pieces: number): [number, number][] {
  const start = (piece: number): number => Math.floor((piece * count) / pieces);
  return Array.from({ length: pieces }, (_, piece) => [start(piece), start(piece + 1) - start(piece)]);
}
