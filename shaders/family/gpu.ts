/**
 * The matrix product for GPUs. A workgroup makes a tile of C; 16 steps of K at a time it stages the two strips of A and
 * B that the tile needs in workgroup memory, and each invocation keeps 4×4 elements of C in registers, so that eight
 * reads from workgroup memory feed sixteen multiply-adds (8×4: twelve feed thirty-two). Tint does not unroll loops: the
 * inner one is written out. Reads from workgroup memory are scalar (vec4 ones have been measured slower on several
 * GPUs), reads from storage are vec4 where the rows allow it. No subgroup size is assumed.
 *
 * An invocation's elements are spread over the tile in both directions, as far apart as there are invocations, so
 * neighbours read neighbouring words of workgroup memory and store neighbouring words of C.
 */

import { isBare, type Product } from './product.ts';
import { slicesOfStepsText } from './slices.ts';
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
import { GPU_TILES, type GpuShape, ruleFor } from './tiles.ts';
import { indent, plus, range } from './widths.ts';

/** Two words of padding keep the transposing stores of neighbouring invocations in different banks. */
const STAGING: Staging = { element: 'f32', padding: 2 };

/** Tiles of 64×64 elements in C: what the table goes by. */
export const largeTiles = (m: number, n: number): number => Math.ceil(m / 64) * Math.ceil(n / 64);

/** `m` is the actual M, `shape` the table's choice or what is tuned. */
export function gpuTile(
  product: Product,
  m: number,
  shape: GpuShape = ruleFor(GPU_TILES, product.layout, largeTiles(m, product.n), isBare(product)),
): GpuTile & GpuShape {
  const { rows, columns, depth, ownRows, ownColumns } = shape;
  const { k } = product;
  const most = k === 'runtime' ? depth : Math.min(depth, Math.ceil(k / 4) * 4);
  return { rows, columns, depth: most, ownRows, ownColumns };
}

export const gpuWorkgroups = (tile: GpuTile, m: number, n: number): readonly [number, number, number] => [
  Math.ceil(n / tile.columns),
  Math.ceil(m / tile.rows),
  1,
];

export const gpuInvocations = (tile: GpuShape): number => (tile.columns / tile.ownColumns) * (tile.rows / tile.ownRows);

/** How the tile is dealt to the invocations: so many across and down, each with rows and vec4s of columns. */
interface Deal {
  readonly across: number;
  readonly down: number;
  readonly rows: readonly number[];
  readonly quads: readonly number[];
}

const deal = ({ rows, columns, ownRows, ownColumns }: GpuShape): Deal => ({
  across: columns / ownColumns,
  down: rows / ownRows,
  rows: range(ownRows),
  quads: range(ownColumns / 4),
});

/** One step of K, written out: `s2_0` is the vec4 of this invocation's first four columns in its third row. */
function stepText(k: number, a: Strip, b: Strip, { across, down, rows, quads }: Deal): string[] {
  const as = rows.map((i) => `let a${i} = aStrip[${plus('row', k * a.pitch + i * down)}];`);
  const bs = quads.map((quad) => {
    const words = range(4).map((j) => `bStrip[${plus('column', k * b.pitch + (4 * quad + j) * across)}]`);
    return `  let b${quad} = vec4f(${words.join(', ')});`;
  });
  const sums = quads.map((quad) => `  ${rows.map((i) => `s${i}_${quad} += a${i} * b${quad};`).join(' ')}`);
  return ['{', `  ${as.join(' ')}`, ...bs, ...sums, '}'];
}

export function gpuText(product: Product, tile: GpuTile & GpuShape): string {
  const dealt = deal(tile);
  const { across, down, rows, quads } = dealt;
  const both = strips(product, tile, STAGING);
  const [a, b] = both;
  const totals = biasGradientText(product, tile, b);
  const steps = slicesOfStepsText(product);
  const sums = quads.flatMap((quad) => rows.map((i) => `var s${i}_${quad} = vec4f();`));
  return `${memoryText(product, both)}
${finishText(product)}
fn run(group: vec3u, groups: vec3u, local: u32) {
  let firstRow = group.y * ${tile.rows}u;
  let firstColumn = group.x * ${tile.columns}u;
  let row = local / ${across}u;
  let column = local % ${across}u;
${indent([...steps.before, ...sums, ...totals.before], 1)}\
  for (var k0 = ${steps.first}; k0 < ${a.kText}; k0 += ${tile.depth}u) {
${indent(stagesText(both, across * down), 2)}    workgroupBarrier();
${indent(
  range(tile.depth).flatMap((k) => stepText(k, a, b, dealt)),
  2,
)}${indent(totals.loop, 2)}    workgroupBarrier();
  }
${indent(
  quads.flatMap((quad) => [
    'for (var j = 0u; j < 4u; j++) {',
    `  let n = ${plus('firstColumn + column', 4 * quad * across)} + j * ${across}u;`,
    ...rows.map((i) => `  finish(${plus('firstRow + row', i * down)}, n, s${i}_${quad}[j]);`),
    '}',
  ]),
  1,
)}${indent(totals.end, 1)}}
`;
}
