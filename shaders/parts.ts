/**
 * A dispatch in parts: where a grid of workgroups is larger than WebGPU allows, or takes longer than a watchdog waits. The
 * one idea: each part runs the same text over a box of the grid and reads from a uniform where its box begins, so that
 * every workgroup computes what it computes in one dispatch, whatever the kernel is: a cut never changes a bit.
 *
 * The text is rewritten by convention: an entry point takes `@builtin(workgroup_id)`, `@builtin(num_workgroups)` or
 * `@builtin(global_invocation_id)` as a parameter of type vec3u, right after its `@workgroup_size(…)`. A whole dispatch
 * runs the text as it stands, and pays nothing.
 */
import { invariant } from '../swarm/base.ts';
import type { Dims, Variant } from './kernel.ts';

/** WebGPU's guaranteed maxComputeWorkgroupsPerDimension. */
export const MAX_WORKGROUPS_PER_DIMENSION = 65_535;
/** Bytes of the uniform `@group(2) @binding(0)`: first workgroup, whole grid, each padded to four words. */
export const PART_BYTES = 32;

export type Grid = readonly [number, number, number];

/** A box of a grid: `size` workgroups from `first` on. */
export interface Part {
  readonly first: Grid;
  readonly size: Grid;
}

/** The fewest boxes that WebGPU allows and, as far as the grid has workgroups for it, at least `least`. */
export function partsOf(grid: Grid, least: number): Part[] {
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
    const axis = [0, 1, 2].reduce((best, next) => (grid[next] / cuts[next] > grid[best] / cuts[best] ? next : best));
    if (cuts[axis] >= grid[axis]) break;
    cuts[axis] = Math.min(grid[axis], Math.max(cuts[axis] + 1, Math.ceil((least * cuts[axis]) / pieces())));
  }
  const [xs, ys, zs] = grid.map((count, axis) => spans(count, cuts[axis]));
  return zs.flatMap((z) =>
    ys.flatMap((y) => xs.map((x): Part => ({ first: [x[0], y[0], z[0]], size: [x[1], y[1], z[1]] }))),
  );
}

/** `[first, length]` of as many runs as equal as can be. */
function spans(count: number, pieces: number): [number, number][] {
  const start = (piece: number): number => Math.floor((piece * count) / pieces);
  return Array.from({ length: pieces }, (_, piece) => [start(piece), start(piece + 1) - start(piece)]);
}

const ENTRY = /@workgroup_size\(([^)]*)\)(\s*fn\s+)(\w+)\s*\(([^{]*?)\)\s*\{/g;
const PARAMETER = /@builtin\((workgroup_id|num_workgroups|global_invocation_id)\)\s+(\w+)\s*:\s*vec3u\s*,?/g;

/** The variant that runs boxes of its grid, or the variant as it is where one dispatch does. */
export function inParts(variant: Variant, dims: Dims, least: number): Variant {
  if (partsOf(variant.workgroups(dims), least).length === 1) return variant;
  let found = false;
  const code = variant.code.replace(ENTRY, (text, size: string, fn: string, name: string, parameters: string) => {
    if (name !== variant.entryPoint) return text;
    found = true;
    const lines: string[] = [];
    const left = parameters.replace(PARAMETER, (_, builtin: string, own: string) => {
      if (builtin === 'num_workgroups') {
        lines.push(`let ${own} = part.groups;`);
        return '';
      }
      const extent = builtin === 'workgroup_id' ? '' : ` * vec3u(${extents(size)})`;
      lines.push(`let ${own} = ${own}_in_part + part.first${extent};`);
      return `@builtin(${builtin}) ${own}_in_part: vec3u,`;
    });
    return `@workgroup_size(${size})${fn}${name}(${left}) {\n  ${lines.join('\n  ')}`;
  });
  invariant(found, `${variant.key} has no entry point ${variant.entryPoint} by the convention`);
  return {
    ...variant,
    key: `${variant.key} in parts`,
    code: `${code}
struct Part { first: vec3u, groups: vec3u }
@group(2) @binding(0) var<uniform> part: Part;
`,
    inParts: true,
  };
}

/** `GROUP` -> `GROUP, 1, 1`. */
const extents = (size: string): string => {
  const given = size
    .split(',')
    .map((extent) => extent.trim())
    .filter((extent) => extent !== '');
  return [...given, '1', '1']
    .slice(0, 3)
    .map((extent) => `u32(${extent})`)
    .join(', ');
};

/** The uniform of a part. */
export const partData = (part: Part, grid: Grid): Uint32Array<ArrayBuffer> =>
  Uint32Array.from([...part.first, 0, ...grid, 0]);
