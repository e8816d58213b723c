/**
 * The matrix product for GPUs. The one idea: a workgroup makes a square tile of C; 16 steps of K at a time it stages
 * the two strips of A and B that the tile needs in workgroup memory, and each invocation keeps 4×4 elements of C in
 * registers, so that eight reads from workgroup memory feed sixteen multiply-adds. Tint does not unroll loops: the
 * inner one is written out. Reads from workgroup memory are scalar (vec4 ones have been measured slower on several
 * GPUs), reads from storage are vec4 where the rows allow it. No subgroup size is assumed.
 *
 * An invocation's elements are a quarter of the tile apart in both directions, so neighbours read neighbouring words of
 * workgroup memory and store neighbouring words of C.
 */
import { indent, plus, range } from './bindings.ts';
import type { Product } from './product.ts';
import {
  biasGradientText,
  finishText,
  type GpuTile,
  memoryText,
  type Staging,
  type Strip,
  stagesText,
  strips,
} from './strips.ts';
import { GPU_ROWS, type GpuRow, rowFor } from './tiles.ts';

const PER_INVOCATION = 4;

/** Two words of padding keep the transposing stores of neighbouring invocations in different banks. */
const STAGING: Staging = { element: 'f32', padding: 2 };

/** Tiles of 64×64 elements in C: what the table goes by. */
export const largeTiles = (m: number, n: number): number => Math.ceil(m / 64) * Math.ceil(n / 64);

/** `m` is the actual M, `side` and `deepest` the table's choice or what is tuned. */
export function gpuTile(
  { layout, n, k }: Product,
  m: number,
  { side, depth: deepest }: Pick<GpuRow, 'side' | 'depth'> = rowFor(GPU_ROWS, layout, largeTiles(m, n)),
): GpuTile {
  return { rows: side, columns: side, depth: k === 'runtime' ? deepest : Math.min(deepest, Math.ceil(k / 4) * 4) };
}

export const gpuWorkgroups = (tile: GpuTile, m: number, n: number): readonly [number, number, number] => [
  Math.ceil(n / tile.columns),
  Math.ceil(m / tile.rows),
  1,
];

/** One step of K, written out: `s2` is the vec4 of this invocation's four columns in its third row. */
function stepText(k: number, a: Strip, b: Strip, across: number, down: number): string[] {
  const as = range(PER_INVOCATION).map((i) => `let a${i} = aStrip[${plus('row', k * a.pitch + i * down)}];`);
  const bs = range(PER_INVOCATION).map((j) => `bStrip[${plus('column', k * b.pitch + j * across)}]`);
  const sums = range(PER_INVOCATION).map((i) => `s${i} += a${i} * bs;`);
  return ['{', `  ${as.join(' ')}`, `  let bs = vec4f(${bs.join(', ')});`, `  ${sums.join(' ')}`, '}'];
}

export function gpuText(product: Product, tile: GpuTile): string {
  const across = tile.columns / PER_INVOCATION;
  const down = tile.rows / PER_INVOCATION;
  const invocations = across * down;
  const both = strips(product, tile, STAGING);
  const [a, b] = both;
  const totals = biasGradientText(product, tile, b);
  return `${memoryText(product, both)}
${finishText(product, both)}
@compute @workgroup_size(${invocations})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
  let firstRow = group.y * ${tile.rows}u;
  let firstColumn = group.x * ${tile.columns}u;
  let row = local / ${across}u;
  let column = local % ${across}u;
${indent([...range(PER_INVOCATION).map((i) => `var s${i} = vec4f();`), ...totals.before], 1)}\
  for (var k0 = 0u; k0 < ${a.kText}; k0 += ${tile.depth}u) {
${indent(stagesText(both, invocations), 2)}    workgroupBarrier();
${indent(
  range(tile.depth).flatMap((k) => stepText(k, a, b, across, down)),
  2,
)}${indent(totals.loop, 2)}    workgroupBarrier();
  }
  for (var j = 0u; j < ${PER_INVOCATION}u; j++) {
    let n = firstColumn + column + j * ${across}u;
${indent(
  range(PER_INVOCATION).map((i) => `finish(${plus('firstRow + row', i * down)}, n, s${i}[j]);`),
  2,
)}  }
${indent(totals.end, 1)}}
`;
}
