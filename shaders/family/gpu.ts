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
import { component, declarations, dimText, indent, plus, range, type VectorWidth, widths } from './bindings.ts';
import { geluText, type Product } from './product.ts';
import { GPU_ROWS, type GpuRow, rowFor } from './tiles.ts';

const PER_INVOCATION = 4;

export interface GpuTile {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
}

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

/** A strip of an operand: `side` rows of C (or columns, for B) by `depth` steps of K. */
interface Strip {
  readonly operand: 'a' | 'b';
  readonly width: VectorWidth;
  readonly side: number;
  readonly depth: number;
  /** Words between steps of K in workgroup memory. */
  readonly pitch: number;
  /** Whether the operand's rows in storage run along K. */
  readonly alongDepth: boolean;
  /** First row (column) of the tile, and what it must stay below. */
  readonly start: string;
  readonly limit: string;
  readonly kText: string;
}

/** One load of this invocation: `turn` of as many as the strip needs. Outside the matrix the strip is zero. */
function stageText(strip: Strip, turn: number, invocations: number): string[] {
  const { operand, width, side, depth, pitch, alongDepth, start, limit, kText } = strip;
  const perLine = (alongDepth ? depth : side) / width;
  const loads = (side * depth) / width;
  const value = width === 4 ? 'vec4f' : 'f32';
  const minor = width === 4 ? `(index % ${perLine}u) * 4u` : `index % ${perLine}u`;
  const [sideText, depthText] = alongDepth ? [`index / ${perLine}u`, minor] : [minor, `index / ${perLine}u`];
  const column = (text: string): string => (width === 4 ? `(${text}) / 4u` : text);
  const at = alongDepth
    ? `${operand}[${start} + side][${column('k0 + depth')}]`
    : `${operand}[k0 + depth][${column(`${start} + side`)}]`;
  const word = (p: number): string =>
    alongDepth ? `(${plus('depth', p)}) * ${pitch}u + side` : plus(`depth * ${pitch}u + side`, p);
  const store =
    width === 1
      ? [`${operand}Strip[depth * ${pitch}u + side] = value;`]
      : range(4).map((p) => `${operand}Strip[${word(p)}] = value.${component(p)};`);
  const isPartial = (turn + 1) * invocations > loads;
  const body = [
    `let side = ${sideText};`,
    `let depth = ${depthText};`,
    `var value = ${value}();`,
    `if (${start} + side < ${limit} && k0 + depth < ${kText}) { value = ${at}; }`,
    ...store,
  ];
  return [
    '{',
    `  let index = ${plus('local', turn * invocations)};`,
    ...(isPartial
      ? [`  if (index < ${loads}u) {`, ...body.map((line) => `    ${line}`), '  }']
      : body.map((line) => `  ${line}`)),
    '}',
  ];
}

function strips(product: Product, tile: GpuTile): [Strip, Strip] {
  const width = widths(product);
  const kText = dimText(product.k, 'K');
  const { depth } = tile;
  // Two words of padding keep the transposing stores of neighbouring invocations in different banks.
  const pitch = (side: number): number => side + 2;
  const a: Strip = {
    operand: 'a',
    width: width.a,
    side: tile.rows,
    depth,
    pitch: pitch(tile.rows),
    alongDepth: product.layout !== 'TN',
    start: 'firstRow',
    limit: dimText(product.m, 'M'),
    kText,
  };
  const b: Strip = {
    operand: 'b',
    width: width.b,
    side: tile.columns,
    depth,
    pitch: pitch(tile.columns),
    alongDepth: product.layout === 'NT',
    start: 'firstColumn',
    limit: `${product.n}u`,
    kText,
  };
  return [a, b];
}

/** One step of K, written out: `s2` is the vec4 of this invocation's four columns in its third row. */
function stepText(k: number, a: Strip, b: Strip, across: number, down: number): string[] {
  const as = range(PER_INVOCATION).map((i) => `let a${i} = aStrip[${plus('row', k * a.pitch + i * down)}];`);
  const bs = range(PER_INVOCATION).map((j) => `bStrip[${plus('column', k * b.pitch + j * across)}]`);
  const sums = range(PER_INVOCATION).map((i) => `s${i} += a${i} * bs;`);
  return ['{', `  ${as.join(' ')}`, `  let bs = vec4f(${bs.join(', ')});`, `  ${sums.join(' ')}`, '}'];
}

/** Element (m, n) of C from its sum v. */
function elementText({ epilogue }: Product): string[] {
  const { bias, gelu, geluBackward, residual, accumulate } = epilogue;
  return [
    ...(bias ? ['v += bias[n];'] : []),
    ...(gelu ? ['pre[m][n] = v;', 'v = gelu(v);'] : []),
    ...(geluBackward ? ['v *= geluSlope(pre[m][n]);'] : []),
    ...(residual ? ['v += residual[m][n];'] : []),
    `c[m][n] ${accumulate ? '+=' : '='} v;`,
  ];
}

/** Column sums of B by the first row of tiles: one invocation a column adds up the strip that is staged anyway. */
function biasGradientText({ n, epilogue }: Product, tile: GpuTile, b: Strip): { loop: string[]; end: string[] } {
  const sum = range(tile.depth).map((k) => `bStrip[${plus('local', k * b.pitch)}]`);
  return {
    loop: [`if (group.y == 0u && local < ${tile.columns}u) { total += ${sum.join(' + ')}; }`],
    end: [
      `if (group.y == 0u && local < ${tile.columns}u && firstColumn + local < ${n}u) {`,
      `  biasGradient[firstColumn + local] ${epilogue.accumulate ? '+=' : '='} total;`,
      '}',
    ],
  };
}

export function gpuText(product: Product, tile: GpuTile): string {
  const across = tile.columns / PER_INVOCATION;
  const down = tile.rows / PER_INVOCATION;
  const invocations = across * down;
  const [a, b] = strips(product, tile);
  const { gelu, geluBackward, biasGradient } = product.epilogue;
  const stage = [a, b].flatMap((strip) =>
    range(Math.ceil((strip.side * strip.depth) / strip.width / invocations)).flatMap((turn) =>
      stageText(strip, turn, invocations),
    ),
  );
  const totals = biasGradient ? biasGradientText(product, tile, b) : { loop: [], end: [] };
  // Rows of C are scalars: a store to one component of a vec4 may write the neighbours' components too.
  const width = { ...widths(product), c: 1 } as const;
  return `${declarations(product, width)}
var<workgroup> aStrip: array<f32, ${a.depth * a.pitch}>;
var<workgroup> bStrip: array<f32, ${b.depth * b.pitch}>;

${gelu || geluBackward ? `${geluText('f32')}\n` : ''}fn finish(m: u32, n: u32, sum: f32) {
  if (m >= ${a.limit} || n >= ${b.limit}) { return; }
  var v = sum;
${indent(elementText(product), 1)}}

@compute @workgroup_size(${invocations})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
  let firstRow = group.y * ${tile.rows}u;
  let firstColumn = group.x * ${tile.columns}u;
  let row = local / ${across}u;
  let column = local % ${across}u;
${indent(
  range(PER_INVOCATION).map((i) => `var s${i} = vec4f();`),
  1,
)}${biasGradient ? '  var total = 0.0;\n' : ''}  for (var k0 = 0u; k0 < ${a.kText}; k0 += ${tile.depth}u) {
${indent(stage, 2)}    workgroupBarrier();
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
