/**
 * The matrix product for GPUs. A workgroup makes a tile of C; so many steps of K at a time it stages the two strips of A
 * and B that the tile needs in workgroup memory (quads.ts), and each invocation keeps elements of C in registers: of 8×8,
 * four quads read from workgroup memory feed 64 multiply-adds, of 8×4 three feed 32, of 4×4 two feed 16. GPUs whose
 * workgroup memory gives 32 words a clock to 128 lanes are bound by these reads below 8×8. Tint does not unroll loops: the
 * inner one and the way out are written out, since an accumulator that is indexed by a variable lies in memory for the
 * whole kernel. No subgroup size is assumed.
 *
 * An invocation's columns lie in quads as far apart as there are invocations, so neighbours read and store neighbouring
 * quads; its rows likewise. Four rows of eight invocations are neighbours, a shape that reads few different quads.
 *
 * Where the grid is small there are few workgroups to change to while one waits for storage: such tiles load the next
 * stretch of K into registers before they multiply the one that is staged (`prefetch`).
 *
 * A tile changes no bit: each element is one chain of multiply-adds over K, of floats, also where the operands are halves.
 */

import type { GpuClass } from './adapterFamily.ts';
import { type BiasGradient, biasGradientStore, finishText, type GpuTile, sliceRowText } from './epilogue.ts';
import type { Product } from './product.ts';
import { lastStepText, type QuadStrip, quadMemoryText, quadStrips, stageOf } from './quads.ts';
import { slicesOfStepsText } from './slices.ts';
import { GPU_TILES, type GpuShape, ruleFor } from './tiles.ts';
import { component, indent, plus, range, widths } from './widths.ts';

/** Tiles of 64×64 elements in C: what the table goes by. */
export const largeTiles = (m: number, n: number): number => Math.ceil(m / 64) * Math.ceil(n / 64);

/** With so many workgroups a GPU is busy: where other trainers stop cutting. */
const BUSY_WORKGROUPS = 128;
/** Tiles of 64×64 up to which an H100 gains by slices (2026-11-27): it keeps eight such workgroups on each of 132 cores. */
const BUSY_WIDE_TILES = 1024;

interface TileChoice {
  readonly gpuClass?: GpuClass | undefined;
  /** In place of the table's choice: what is tuned. */
  readonly tried?: GpuShape | undefined;
  /** The operands lie in storage as halves. */
  readonly halves?: boolean | undefined;
}

/**
 * `m` is the actual M. What is cut into slices of K to keep a GPU of many registers busy gets the tile of a product that
 * does: one text, however many slices a micro-batch has.
 */
export function gpuTile(
  { layout, n, k, slices }: Product,
  m: number,
  { gpuClass = 'usual', tried, halves = false }: TileChoice = {},
): GpuShape {
  const size = slices && gpuClass === 'wide' ? BUSY_WIDE_TILES : largeTiles(m, n);
  const shape = tried ?? ruleFor(GPU_TILES[gpuClass], layout, size);
  const { rows, columns, depth, ownRows, ownColumns, prefetch, direct } = shape;
  const most = k === 'runtime' ? depth : Math.min(depth, Math.ceil(k / 4) * 4);
  const tile = { rows, columns, depth: most, ownRows, ownColumns, ...(prefetch && { prefetch }) };
  if (direct) return { ...tile, direct };
  return halves ? { ...tile, ofHalves: true } : tile;
}

export const gpuWorkgroups = (tile: GpuTile, m: number, n: number): readonly [number, number, number] => [
  Math.ceil(n / tile.columns),
  Math.ceil(m / tile.rows),
  1,
];

/** Of what keeps a GPU busy, how much the workgroups of this product are, uncut. */
export function busyShare(product: Product, m: number, gpuClass: GpuClass = 'usual'): number {
  if (gpuClass === 'cpu') return 1;
  if (gpuClass === 'wide') return largeTiles(m, product.n) / BUSY_WIDE_TILES;
  const [x, y] = gpuWorkgroups(gpuTile(product, m, { gpuClass }), m, product.n);
  return (x * y) / BUSY_WORKGROUPS;
}

export const gpuInvocations = (tile: GpuShape): number => (tile.columns / tile.ownColumns) * (tile.rows / tile.ownRows);

/** How the tile is dealt to the invocations: so many across and down, each with quads of rows and of columns. */
interface Deal {
  readonly across: number;
  readonly down: number;
  readonly rowQuads: readonly number[];
  readonly quads: readonly number[];
}

const deal = ({ rows, columns, ownRows, ownColumns }: GpuShape): Deal => ({
  across: columns / ownColumns,
  down: rows / ownRows,
  rowQuads: range(ownRows / 4),
  quads: range(ownColumns / 4),
});

/** Neighbours: so many across, and so many down. */
const ACROSS = 8;
const DOWN = 4;

/** This invocation's place: blocks of neighbours lie side by side, then below one another. */
const placeText = ({ across, down }: Deal): string[] => [
  `let row = local / ${ACROSS}u % ${DOWN}u + ${DOWN}u * (local / ${DOWN * across}u % ${down / DOWN}u);`,
  `let column = local % ${ACROSS}u + ${ACROSS}u * (local / ${DOWN * ACROSS}u % ${across / ACROSS}u);`,
];

/** `s5_1`: the second quad of columns in the second row of the second quad of rows. */
const sumName = (rowQuad: number, i: number, quad: number): string => `s${4 * rowQuad + i}_${quad}`;

/** A line for each row of sums. */
const ofSums = ({ rowQuads, quads }: Deal, text: (...of: Parameters<typeof sumName>) => string): string[] =>
  rowQuads.flatMap((r) => range(4).map((i) => quads.map((j) => text(r, i, j)).join(' ')));

/** One step of K, written out. */
function stepText(k: number, a: QuadStrip, b: QuadStrip, dealt: Deal): string[] {
  const { across, down, rowQuads, quads } = dealt;
  const as = rowQuads.map((i) => `let a${i} = aStrip[${plus('row', k * a.pitch + i * down)}];`);
  const bs = quads.map((j) => `let b${j} = bStrip[${plus('column', k * b.pitch + j * across)}];`);
  const sums = ofSums(dealt, (r, i, j) => `${sumName(r, i, j)} += a${r}.${component(i)} * b${j};`);
  return ['{', ...[...as, ...bs, ...sums].map((line) => `  ${line}`), '}'];
}

/** One invocation a quad of columns adds up the strip of B that is staged anyway, in the first row of tiles. */
function biasGradientText(product: Product, b: QuadStrip): BiasGradient {
  if (!product.epilogue.biasGradient) return { before: [], loop: [], end: [] };
  const { quads, depth, pitch } = b;
  const whole = widths(product).c;
  const sum = range(depth).map((k) => `bStrip[${plus('totalQuad', k * pitch)}]`);
  const own = 'firstColumn / 4u + totalQuad';
  const stores =
    whole === 4
      ? [`if (${own} < ${product.n / 4}u) { ${biasGradientStore(product, 4, own, 'total')} }`]
      : range(4).map((i) => {
          const column = `firstColumn + ${plus('4u * totalQuad', i)}`;
          return `if (${column} < ${product.n}u) { ${biasGradientStore(product, 1, column, `total.${component(i)}`)} }`;
        });
  const totals = `group.y == 0u && local < ${quads}u`;
  return {
    before: [`let totalQuad = local % ${quads}u;`, 'var total = vec4f();'],
    loop: [`if (${totals}) { total += ${sum.join(' + ')}; }`],
    end: [`if (${totals}) {`, ...stores.map((line) => `  ${line}`), '}'],
  };
}

/** Every element of C goes its way. */
function outText(product: Product, { across, down, rowQuads, quads }: Deal): string[] {
  const isWhole = widths(product).c === 4;
  return rowQuads.flatMap((r) =>
    range(4).flatMap((i) =>
      quads.flatMap((j) => {
        const m = `firstRow + ${plus('4u * row', 4 * r * down + i)}`;
        const n = `firstColumn + ${plus('4u * column', 4 * j * across)}`;
        const sum = sumName(r, i, j);
        if (isWhole) return [`finish(${m}, ${n}, ${sum});`];
        return range(4).map((c) => `finish(${m}, ${plus(n, c)}, ${sum}.${component(c)});`);
      }),
    ),
  );
}

export function gpuText(product: Product, tile: GpuShape): string {
  const dealt = deal(tile);
  const both = quadStrips(product, tile);
  const [a, b] = both;
  const stage = stageOf(both, gpuInvocations(tile));
  const totals = biasGradientText(product, b);
  const steps = slicesOfStepsText(product);
  const sums = ofSums(dealt, (...of) => `var ${sumName(...of)} = vec4f();`);
  const end = lastStepText(product);
  const next = `k0 + ${tile.depth}u`;
  const multiply = [
    'workgroupBarrier();',
    ...range(tile.depth).flatMap((k) => stepText(k, a, b, dealt)),
    ...totals.loop,
    'workgroupBarrier();',
  ];
  const loadNext = [...stage.clears, ...stage.loads(next)].map((line) => `  ${line}`);
  const body = tile.prefetch
    ? [...stage.stores, `if (${next} < ${end}) {`, ...loadNext, '}', ...multiply]
    : [...stage.values, ...stage.loads('k0'), ...stage.stores, ...multiply];
  return `${quadMemoryText(both)}${sliceRowText(product)}
${finishText(product, widths(product).c)}
fn run(group: vec3u, groups: vec3u, local: u32) {
  let firstRow = group.y * ${tile.rows}u;
  let firstColumn = group.x * ${tile.columns}u;
${indent([...placeText(dealt), ...stage.places, ...steps.before, ...sums, ...totals.before], 1)}\
${indent(tile.prefetch ? [...stage.values, ...stage.loads(steps.first)] : [], 1)}\
  for (var k0 = ${steps.first}; k0 < ${end}; k0 += ${tile.depth}u) {
${indent(body, 2)}  }
${indent([...outText(product, dealt), ...totals.end], 1)}}
`;
}
