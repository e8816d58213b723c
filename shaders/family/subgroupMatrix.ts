/**
 * The matrix product for GPUs with matrix units. Strips of A and B are staged in workgroup memory as for any GPU, and
 * four subgroups make a quarter of the tile each, of whole matrices that the unit multiplies; so layouts, remainders
 * and epilogues are those of the plain family. A result's elements lie wherever the unit likes: each matrix goes
 * through workgroup memory on its way out, where any invocation finishes any element.
 *
 * A subgroup may be smaller than the adapter's largest, so there may be more than four of them in a workgroup: the rest
 * only stage and finish. That they skip is uniform in a subgroup, which is all that the unit asks; Tint's analysis knows
 * but workgroups.
 */
import { at } from '../../swarm/base.ts';
import { ELEMENT_BYTES } from '../../swarm/precision.ts';
import { finishText, type GpuTile, sliceRowText } from './epilogue.ts';
import { largeTiles } from './gpu.ts';
import type { MatrixUnit } from './matrixUnit.ts';
import type { Product } from './product.ts';
import { slicesOfStepsText } from './slices.ts';
import { biasGradientText, memoryText, type Strip, stagesText, strips } from './strips.ts';
import { MATRIX_TILES, type MatrixRule, ruleFor } from './tiles.ts';
import { indent, plus, range } from './widths.ts';

/** Two by two. */
const SUBGROUPS = 4;
/** Elements: a unit reads rows that begin at multiples of 16 bytes. */
const PADDING = 8;

/** `m` is the actual M. */
export function matrixTile(
  { layout, n, k }: Product,
  m: number,
  unit: MatrixUnit,
  { side, depthBytes }: Pick<MatrixRule, 'side' | 'depthBytes'> = ruleFor(MATRIX_TILES, layout, largeTiles(m, n)),
): GpuTile {
  const deepest = Math.max(unit.k, depthBytes / ELEMENT_BYTES[unit.component]);
  return {
    rows: side,
    columns: side,
    depth: k === 'runtime' ? deepest : Math.min(deepest, Math.ceil(k / unit.k) * unit.k),
  };
}

/** Which matrices a subgroup's quarter of the tile is made of. */
interface Quarter {
  readonly side: number;
  /** First rows and first columns of its matrices. */
  readonly rows: readonly number[];
  readonly columns: readonly number[];
}

function quarterOf({ rows, columns }: GpuTile, { m, n }: MatrixUnit): Quarter {
  const side = rows / 2;
  return {
    side,
    rows: range(side / m).map((i) => i * m),
    columns: range(columns / 2 / n).map((j) => j * n),
  };
}

/** The unit's own length of K, written out: `s1_2` is the matrix in the second row, third column. */
function stepText(k: number, a: Strip, b: Strip, quarter: Quarter): string[] {
  const as = quarter.rows.map(
    (at, i) =>
      `let a${i} = subgroupMatrixLoad<Left, col_major>(&aStrip, ${plus('row', k * a.pitch + at)}, ${a.pitch}u);`,
  );
  const bs = quarter.columns.map(
    (at, j) =>
      `let b${j} = subgroupMatrixLoad<Right, row_major>(&bStrip, ${plus('column', k * b.pitch + at)}, ${b.pitch}u);`,
  );
  const sums = names(quarter).map(
    ({ i, j, name }) => `${name} = subgroupMatrixMultiplyAccumulate(a${i}, b${j}, ${name});`,
  );
  return ['{', ...[...as, ...bs, ...sums].map((line) => `  ${line}`), '}'];
}

const names = ({ rows, columns }: Quarter): { i: number; j: number; name: string }[] =>
  rows.flatMap((_, i) => columns.map((_, j) => ({ i, j, name: `s${i}_${j}` })));

/** Each subgroup's matrix in the same place of its quarter. */
function outText(quarter: Quarter, { m, n }: MatrixUnit): string[] {
  return names(quarter).flatMap(({ i, j, name }) => [
    `if (multiplies) { subgroupMatrixStore<row_major>(&matrices, subgroup * ${m * n}u, ${name}, ${n}u); }`,
    'workgroupBarrier();',
    `finishMatrices(${plus('firstRow', at(quarter.rows, i))}, ${plus('firstColumn', at(quarter.columns, j))}, local);`,
    'workgroupBarrier();',
  ]);
}

export const matrixDirectives = ({ component }: MatrixUnit): string[] => [
  ...(component === 'f16' ? ['enable f16;'] : []),
  'enable subgroups;',
  'enable chromium_experimental_subgroup_matrix;',
  'diagnostic(off, chromium.subgroup_matrix_uniformity);',
];

/** A column's sum needs an invocation. */
export const matrixInvocations = ({ columns }: GpuTile, { lanes }: MatrixUnit): number =>
  Math.max(SUBGROUPS * lanes, columns);

export function matrixText(product: Product, tile: GpuTile, unit: MatrixUnit): string {
  const { component, m, n, k } = unit;
  const both = strips(product, tile, { element: component, padding: PADDING });
  const [a, b] = both;
  const quarter = quarterOf(tile, unit);
  const invocations = matrixInvocations(tile, unit);
  const totals = biasGradientText(product, tile, b);
  const steps = slicesOfStepsText(product);
  return `alias Left = subgroup_matrix_left<${component}, ${k}, ${m}>;
alias Right = subgroup_matrix_right<${component}, ${n}, ${k}>;
alias Result = subgroup_matrix_result<f32, ${n}, ${m}>;

${memoryText(both)}${sliceRowText(product)}var<workgroup> matrices: array<f32, ${SUBGROUPS * m * n}>;

${finishText(product, 1)}
fn finishMatrices(firstRow: u32, firstColumn: u32, local: u32) {
  for (var index = local; index < ${SUBGROUPS * m * n}u; index += ${invocations}u) {
    let subgroup = index / ${m * n}u;
    let row = subgroup / 2u * ${quarter.side}u + index % ${m * n}u / ${n}u;
    let column = subgroup % 2u * ${quarter.side}u + index % ${n}u;
    finish(firstRow + row, firstColumn + column, matrices[index]);
  }
}

fn run(group: vec3u, groups: vec3u, local: u32, subgroup: u32) {
  let firstRow = group.y * ${tile.rows}u;
  let firstColumn = group.x * ${tile.columns}u;
  let multiplies = subgroup < ${SUBGROUPS}u;
  let row = subgroup / 2u * ${quarter.side}u;
  let column = subgroup % 2u * ${quarter.side}u;
${indent([...steps.before, ...names(quarter).map(({ name }) => `var ${name} = Result();`), ...totals.before], 1)}\
  for (var k0 = ${steps.first}; k0 < ${a.kText}; k0 += ${tile.depth}u) {
${indent(stagesText(both, invocations), 2)}    workgroupBarrier();
    if (multiplies) {
${indent(
  range(tile.depth / k).flatMap((step) => stepText(step * k, a, b, quarter)),
  3,
)}    }
${indent(totals.loop, 2)}    workgroupBarrier();
  }
${indent([...outText(quarter, unit), ...totals.end], 1)}}
`;
}
