/**
 * The matrix product for GPUs' kernels on a CPU (llvmpipe), without workgroup memory: there it lies in the same caches as
 * storage, and a barrier stores and loads all that an invocation holds. Each invocation reads its quads of A and B from
 * storage and keeps its part of the tile in registers. It loads four steps of K at once where the rows of both operands
 * allow it. The text is short, since llvmpipe compiles for as long as there are loads in it.
 *
 * The chain of each element is that of gpu.ts: the same bits.
 */
import { type BiasGradient, biasGradientStore, finishText, sliceRowText } from './epilogue.ts';
import type { Product } from './product.ts';
import { lastStepText } from './quads.ts';
import { slicesOfStepsText } from './slices.ts';
import type { GpuShape } from './tiles.ts';
import { aRow, bRow, component, dimText, indent, plus, range, widths } from './widths.ts';

interface Direct {
  readonly product: Product;
  readonly rows: readonly number[];
  /** Of columns. */
  readonly quads: readonly number[];
  readonly across: number;
  /** Steps of K in a turn of the loop. */
  readonly steps: 1 | 4;
}

const direct = (product: Product, { ownRows, ownColumns, columns }: GpuShape): Direct => ({
  product,
  rows: range(ownRows),
  quads: range(ownColumns / 4),
  across: columns / ownColumns,
  steps: product.layout !== 'TN' && widths(product).a === 4 ? 4 : 1,
});

const vector = (values: readonly string[]): string => `vec4f(${values.join(', ')})`;

/** Rows and columns past the last one are that one again, whose sums nobody stores. */
const rowText = ({ product: { m } }: Direct, i: number): string => `min(${plus('row', i)}, ${dimText(m, 'M')} - 1u)`;
const columnText = ({ product: { n }, across }: Direct, quad: number, i: number): string =>
  `min(${plus('column', 4 * across * quad + i)}, ${n - 1}u)`;

/** Before the loop: where rows (of A) and columns (of B) begin, or lie. */
function placesText(d: Direct): string[] {
  const { product, rows, quads, across } = d;
  const { layout, n, m } = product;
  const width = widths(product);
  const ofA =
    layout !== 'TN'
      ? rows.map((i) => `let aRow${i} = ${rowText(d, i)} * ${aRow(product) / width.a}u;`)
      : width.a === 4
        ? quadsOfRows(rows).map((q) => `let aQuad${q} = min(row / 4u + ${q}u, ${dimText(m, 'M')} / 4u - 1u);`)
        : rows.map((i) => `let aRow${i} = ${rowText(d, i)};`);
  const ofB = quads.flatMap((j) => {
    if (layout === 'NT')
      return range(4).map((i) => `let bRow${j}_${i} = ${columnText(d, j, i)} * ${bRow(product) / width.b}u;`);
    return width.b === 4
      ? [`let bQuad${j} = min(column / 4u + ${j * across}u, ${n / 4 - 1}u);`]
      : range(4).map((i) => `let bColumn${j}_${i} = ${columnText(d, j, i)};`);
  });
  return [...ofA, ...ofB];
}

const quadsOfRows = (rows: readonly number[]): number[] => range(rows.length / 4);

/** `a3_0`: row 3 at step 0 of this turn. */
function loadsOfA({ product, rows, steps }: Direct): string[] {
  const { layout } = product;
  const width = widths(product);
  if (layout !== 'TN') {
    const k = steps === 4 ? 'k / 4u' : 'k';
    return rows.map((i) => `let a${i} = load_a(aRow${i} + ${k});`);
  }
  return width.a === 4
    ? quadsOfRows(rows).map((q) => `let aOf${q} = load_a(k * ${aRow(product) / 4}u + aQuad${q});`)
    : rows.map((i) => `let a${i} = load_a(k * ${aRow(product)}u + aRow${i});`);
}

function elementOfA({ product, steps }: Direct, i: number, step: number): string {
  if (product.layout === 'TN' && widths(product).a === 4) return `aOf${Math.floor(i / 4)}.${component(i % 4)}`;
  return steps === 4 ? `a${i}.${component(step)}` : `a${i}`;
}

/** Before the steps of a turn: columns of B whose rows run along K. */
function loadsOfB({ product: { layout }, quads, steps }: Direct): string[] {
  if (layout !== 'NT') return [];
  const k = steps === 4 ? 'k / 4u' : 'k';
  return quads.flatMap((j) => range(4).map((i) => `let bOf${j}_${i} = load_b(bRow${j}_${i} + ${k});`));
}

/** Four columns of B at a step. */
function quadOfB({ product, steps }: Direct, quad: number, step: number): string {
  const row = `${step === 0 ? 'k' : `(k + ${step}u)`} * ${bRow(product) / widths(product).b}u`;
  if (product.layout === 'NT')
    return vector(range(4).map((i) => `bOf${quad}_${i}${steps === 4 ? `.${component(step)}` : ''}`));
  return widths(product).b === 4
    ? `load_b(${row} + bQuad${quad})`
    : vector(range(4).map((i) => `load_b(${row} + bColumn${quad}_${i})`));
}

const sumName = (row: number, quad: number): string => `s${row}_${quad}`;

function stepText(d: Direct, step: number, totals: BiasGradient): string[] {
  const { rows, quads } = d;
  return [
    '{',
    ...quads.map((j) => `  let b${j} = ${quadOfB(d, j, step)};`),
    ...rows.map((i) => `  ${quads.map((j) => `${sumName(i, j)} += ${elementOfA(d, i, step)} * b${j};`).join(' ')}`),
    ...totals.loop.map((line) => `  ${line}`),
    '}',
  ];
}

/** The first row of invocations in the first row of tiles stores the column sums of B, which all have. */
function biasGradientText({ product, quads, across }: Direct): BiasGradient {
  if (!product.epilogue.biasGradient) return { before: [], loop: [], end: [] };
  const isWhole = widths(product).c === 4;
  const stores = quads.flatMap((j) => {
    const column = plus('column', 4 * across * j);
    if (isWhole) {
      const store = biasGradientStore(product, 4, `(${column}) / 4u`, `total${j}`);
      return [`if (${column} < ${product.n}u) { ${store} }`];
    }
    return range(4).map((i) => {
      const own = plus('column', 4 * across * j + i);
      return `if (${own} < ${product.n}u) { ${biasGradientStore(product, 1, own, `total${j}.${component(i)}`)} }`;
    });
  });
  return {
    before: quads.map((j) => `var total${j} = vec4f();`),
    loop: quads.map((j) => `total${j} += b${j};`),
    end: ['if (row == 0u) {', ...stores.map((line) => `  ${line}`), '}'],
  };
}

/** Every element of C goes its way. */
function outText({ product, rows, quads, across }: Direct): string[] {
  const isWhole = widths(product).c === 4;
  return rows.flatMap((i) =>
    quads.flatMap((j) => {
      const [m, n] = [plus('row', i), plus('column', 4 * across * j)];
      if (isWhole) return [`finish(${m}, ${n}, ${sumName(i, j)});`];
      return range(4).map(
        (c) => `finish(${m}, ${plus('column', 4 * across * j + c)}, ${sumName(i, j)}.${component(c)});`,
      );
    }),
  );
}

export function directText(product: Product, tile: GpuShape): string {
  const d = direct(product, tile);
  const totals = biasGradientText(d);
  const slices = slicesOfStepsText(product);
  const sums = d.rows.map((i) => d.quads.map((j) => `var ${sumName(i, j)} = vec4f();`).join(' '));
  const turn = [...loadsOfA(d), ...loadsOfB(d), ...range(d.steps).flatMap((step) => stepText(d, step, totals))];
  return `${sliceRowText(product)}
${finishText(product, widths(product).c)}
fn run(group: vec3u, groups: vec3u, local: u32) {
  let row = group.y * ${tile.rows}u + local / ${d.across}u * ${tile.ownRows}u;
  let column = group.x * ${tile.columns}u + local % ${d.across}u * 4u;
${indent([...placesText(d), ...slices.before, ...sums, ...totals.before], 1)}\
  for (var k = ${slices.first}; k < ${lastStepText(product)}; k += ${d.steps}u) {
${indent(turn, 2)}  }
${indent([...outText(d), ...totals.end], 1)}}
`;
}
