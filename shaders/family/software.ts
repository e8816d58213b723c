/**
 * The matrix product for software adapters (SwiftShader). The one idea: a workgroup is one row of four lanes that copies
 * a panel of B, up to 128 deep and 32 columns wide, into private memory and walks down rows of C with it. Memory is what
 * costs there: every access to storage is a gather of lanes, vec4 loads are the cheapest per element, workgroup memory
 * is no faster and barriers switch coroutines; private memory at a constant index is one plain load. So the row's text
 * is written out, an element of A is loaded by one lane and handed round, and C is read and written once a panel.
 * (A panel in named values is as fast, but takes the JIT eight times as long: every gather is a dozen branches, and all
 * those values live across them.)
 *
 * Lane l holds the columns 4l…4l+3 of each 16. The four lanes' elements of A go round by rotations: after rotation r
 * lane l has what lane l ^ r loaded. A rotation is one machine instruction, a broadcast six. So every lane meets the
 * elements in an order of its own, and the panel is copied in that order too. Sums over a panel are made in registers,
 * panels are added in C: the bits depend on K alone, not on how rows are dealt to workgroups.
 */
import { SOFTWARE_LANES as LANES } from './adapterFamily.ts';
import { aRow, component, declarations, dimText, indent, known, plus, range, type Widths, widths } from './bindings.ts';
import { geluText, type Product } from './product.ts';
import { rowFor, SOFTWARE_ROWS, type SoftwareRow } from './tiles.ts';

/** Four columns for each lane. */
const VECTOR_COLUMNS = 4 * LANES;
/** For TN, where K is a run-time dim, there are two texts: the deep one where it wastes nothing. */
const SHALLOW_PANEL = 64;

export interface SoftwareTile {
  /** Steps of K in a panel. */
  readonly depth: number;
  /** vec4s of columns a lane holds: a panel is 16 times as wide. */
  readonly vectors: number;
}

/** What the pieces of the text share. */
interface Writer {
  readonly product: Product;
  readonly tile: SoftwareTile;
  readonly width: Widths;
  /** Elements of A that a lane gets by one load, along K. */
  readonly span: number;
  readonly hasDepthTail: boolean;
  readonly hasColumnTail: boolean;
  readonly isOnePanel: boolean;
  readonly kText: string;
}

/** One step of K: component p of what rotation r brings from load q. Steps are added in this order. */
interface Step {
  readonly q: number;
  readonly r: number;
  readonly p: number;
}

/** For TN the elements of A along K are rows apart: one scalar load each. */
function softwareWidths(product: Product): Widths {
  const width = widths(product);
  return product.layout === 'TN' ? { ...width, a: 1 } : width;
}

/** Elements of the matrix that does not vary with the micro-batch. */
export function weights({ m, n, k }: Product): number {
  const rows = k === 'runtime' ? m : k;
  return rows === 'runtime' ? Number.POSITIVE_INFINITY : rows * n;
}

/** `k` is the actual K, `deepest` the table's choice or the one that is tuned. */
export function softwareTile(
  product: Product,
  k: number,
  { depth: deepest }: Pick<SoftwareRow, 'depth'> = rowFor(SOFTWARE_ROWS, product.layout, weights(product)),
): SoftwareTile {
  const vectors = product.n <= VECTOR_COLUMNS ? 1 : 2;
  if (product.k === 'runtime') {
    const isEven = Math.ceil(k / SHALLOW_PANEL) % 2 === 0;
    return { depth: isEven ? deepest : Math.min(deepest, SHALLOW_PANEL), vectors };
  }
  const step = LANES * softwareWidths(product).a;
  const panels = Math.ceil(k / deepest);
  return { depth: Math.ceil(k / panels / step) * step, vectors };
}

/**
 * Strips of columns × runs of rows. A run of 256 rows pays for copying its panels; shorter ones are worth it only where
 * there would be fewer than four workgroups, or an odd few, for two or more cores.
 */
export function softwareWorkgroups(tile: SoftwareTile, m: number, n: number): readonly [number, number, number] {
  const strips = Math.ceil(n / (VECTOR_COLUMNS * tile.vectors));
  const runs = Math.max(Math.ceil(m / 256), Math.min(Math.ceil(4 / strips), Math.ceil(m / 16)));
  const isOddFew = (strips * runs) % 2 === 1 && strips * runs < 8 && m >= 64;
  return [strips, isOddFew ? runs * 2 : runs, 1];
}

function writer(product: Product, tile: SoftwareTile): Writer {
  const width = softwareWidths(product);
  const { n, k } = product;
  return {
    product,
    tile,
    width,
    span: product.layout === 'TN' ? 1 : width.a,
    hasDepthTail: k === 'runtime' || k % tile.depth !== 0,
    hasColumnTail: n % (VECTOR_COLUMNS * tile.vectors) !== 0,
    isOnePanel: k !== 'runtime' && k <= tile.depth,
    kText: dimText(k, 'K'),
  };
}

const loadsOfA = (w: Writer): number[] => range(w.tile.depth / (LANES * w.span));
const vectorsOf = (w: Writer): number[] => range(w.tile.vectors);
const stepsOf = (w: Writer): Step[] =>
  loadsOfA(w).flatMap((q) => range(LANES).flatMap((r) => range(w.span).map((p) => ({ q, r, p }))));
const panelIndex = (w: Writer, { q, r, p }: Step, j: number): number =>
  ((q * LANES + r) * w.span + p) * w.tile.vectors + j;

/** Vector j of a row that is laid out as C's are. Past the last column it reads something, which is never stored. */
function load4(w: Writer, row: string, j: number): string {
  if (w.width.c === 4) return `${row}[${plus('column / 4u', LANES * j)}]`;
  return `vec4f(${range(4)
    .map((i) => `${row}[${plus('column', VECTOR_COLUMNS * j + i)}]`)
    .join(', ')})`;
}

function store4(w: Writer, row: string, j: number, value: string): string[] {
  const guarded = (offset: number, store: string): string =>
    w.hasColumnTail ? `if (${plus('column', offset)} < ${w.product.n}u) { ${store} }` : store;
  const offset = VECTOR_COLUMNS * j;
  if (w.width.c === 4) return [guarded(offset, `${row}[${plus('column / 4u', LANES * j)}] = ${value};`)];
  return range(4).map((i) => guarded(offset + i, `${row}[${plus('column', offset + i)}] = ${value}.${component(i)};`));
}

/**
 * Copies the panel: its vec4 (i · vectors + j) is what this lane multiplies at step i with vector j of its columns.
 * Past K it is zero.
 */
function panelText(w: Writer): string[] {
  const { depth, vectors } = w.tile;
  const { span } = w;
  const guarded = (value: string): string => (w.hasDepthTail ? `select(vec4f(), ${value}, k < ${w.kText})` : value);
  if (w.product.layout !== 'NT') {
    const rotation = span === 1 ? `i % ${LANES}u` : `i / ${span}u % ${LANES}u`;
    const turned = span === 1 ? `(lane ^ (${rotation}))` : `(lane ^ (${rotation})) * ${span}u + i % ${span}u`;
    return [
      `for (var i = 0u; i < ${depth}u; i++) {`,
      `  let k = k0 + i / ${LANES * span}u * ${LANES * span}u + ${turned};`,
      '  let source = &b[k];',
      ...vectorsOf(w).map(
        (j) => `  panel[${plus(vectors === 1 ? 'i' : `i * ${vectors}u`, j)}] = ${guarded(load4(w, '(*source)', j))};`,
      ),
      '}',
    ];
  }
  // Rows of B are columns of C here: load four of them along K, then store the values the other way round.
  const at = span === 1 ? 'k' : `k / ${span}u`;
  return [
    `for (var i = 0u; i < ${depth / span}u; i++) {`,
    `  let k = k0 + ${span === 1 ? '' : `${span}u * `}(i / ${LANES}u * ${LANES}u + (lane ^ (i % ${LANES}u)));`,
    ...vectorsOf(w).flatMap((j) => [
      ...range(4).map((i) => `  let t${j}_${i} = b[${plus('column', VECTOR_COLUMNS * j + i)}][${at}];`),
      ...range(span).map((p) => {
        const elements = range(4).map((i) => `t${j}_${i}${span === 1 ? '' : `.${component(p)}`}`);
        const index = plus(`i * ${span * vectors}u`, p * vectors + j);
        return `  panel[${index}] = ${guarded(`vec4f(${elements.join(', ')})`)};`;
      }),
    ]),
    '}',
  ];
}

/** Where A is read: fixed before the row loop for TN (rows of A are steps of K), an index into each row otherwise. */
function sourcesText(w: Writer): string[] {
  const clamped = (index: string, last: string): string => (w.hasDepthTail ? `min(${index}, ${last})` : index);
  const depth = (q: number): string =>
    `${plus('k0', LANES * w.span * q)} + ${w.span === 1 ? 'lane' : `lane * ${w.span}u`}`;
  // Past K the last element is loaded again (the panel is zero there): this row's sum has that value in it already, so
  // an infinity spoils no other row.
  if (w.product.layout === 'TN') {
    return loadsOfA(w).map((q) => `let source${q} = &a[${clamped(depth(q), `${w.kText} - 1u`)}];`);
  }
  const last = `${aRow(w.product) / w.width.a - 1}u`;
  return loadsOfA(w).map((q) => {
    const index = w.width.a === 1 ? depth(q) : `(${depth(q)}) / ${w.width.a}u`;
    return `let at${q} = ${clamped(index, last)};`;
  });
}

/** `a0_1`: load 0 after rotation 1. */
function elementsText(w: Writer): string[] {
  const loads =
    w.product.layout === 'TN'
      ? loadsOfA(w).map((q) => `let a${q}_0 = (*source${q})[m];`)
      : ['let row = &a[m];', ...loadsOfA(w).map((q) => `let a${q}_0 = (*row)[at${q}];`)];
  const rotations = loadsOfA(w).flatMap((q) => [
    `let a${q}_1 = quadSwapX(a${q}_0);`,
    `let a${q}_2 = quadSwapY(a${q}_0);`,
    `let a${q}_3 = quadSwapDiagonal(a${q}_0);`,
  ]);
  return [...loads, ...rotations];
}

/** What is done to a row's sums over all panels. */
function finishText(w: Writer): string[] {
  const { gelu, geluBackward, residual } = w.product.epilogue;
  const vectors = vectorsOf(w);
  const lines: string[] = [];
  if (gelu || geluBackward) lines.push('let preRow = &pre[m];');
  if (gelu) lines.push(...vectors.flatMap((j) => [...store4(w, '(*preRow)', j, `s${j}`), `s${j} = gelu(s${j});`]));
  if (geluBackward) lines.push(...vectors.map((j) => `s${j} *= geluSlope(${load4(w, '(*preRow)', j)});`));
  if (residual) {
    lines.push('let residualRow = &residual[m];');
    lines.push(...vectors.map((j) => `s${j} += ${load4(w, '(*residualRow)', j)};`));
  }
  return lines;
}

/**
 * The epilogue of several panels: a walk of its own down the rows. To load and store C once more costs less than an `if`
 * for the last panel in every row of every panel, which made a product with a residual up to 1.7 times as long.
 */
function afterText(w: Writer): string[] {
  const lines = w.isOnePanel ? [] : finishText(w);
  if (lines.length === 0) return [];
  const vectors = vectorsOf(w);
  const row = [
    'let out = &c[m];',
    ...vectors.map((j) => `var s${j} = ${load4(w, '(*out)', j)};`),
    ...lines,
    ...vectors.flatMap((j) => store4(w, '(*out)', j, `s${j}`)),
  ];
  return ['for (var m = first; m < end; m++) {', ...row.map((line) => `  ${line}`), '}'];
}

/** One row of C: the sums over this panel, what C holds from the panels before, the epilogue of an only panel, the store. */
function rowText(w: Writer): string[] {
  const { bias, accumulate } = w.product.epilogue;
  const vectors = vectorsOf(w);
  const element = ({ q, r, p }: Step): string => `a${q}_${r}${w.span === 1 ? '' : `.${component(p)}`}`;
  // A select, not a branch: branches cost this adapter more than the load.
  const carried = vectors.map((j) =>
    accumulate ? `s${j} += ${load4(w, '(*out)', j)};` : `s${j} += select(vec4f(), ${load4(w, '(*out)', j)}, k0 > 0u);`,
  );
  return [
    ...elementsText(w),
    ...vectors.map((j) => `var s${j} = ${bias ? `start${j}` : 'vec4f()'};`),
    ...stepsOf(w).map((step) =>
      vectors.map((j) => `s${j} += ${element(step)} * panel[${panelIndex(w, step, j)}];`).join(' '),
    ),
    'let out = &c[m];',
    ...(accumulate || !w.isOnePanel ? carried : []),
    ...(w.isOnePanel ? finishText(w) : []),
    ...vectors.flatMap((j) => store4(w, '(*out)', j, `s${j}`)),
  ];
}

/** Column sums of B, by the first run of rows of each strip: over its steps a lane meets every step of K once. */
function biasGradientText(w: Writer): string[] {
  const { depth, vectors } = w.tile;
  const each = vectorsOf(w);
  const lines = [
    ...each.map((j) => `var total${j} = vec4f();`),
    `for (var i = 0u; i < ${depth}u; i++) {`,
    ...each.map((j) => `  total${j} += panel[${plus(vectors === 1 ? 'i' : `i * ${vectors}u`, j)}];`),
    '}',
    ...each.flatMap((j) => [
      w.product.epilogue.accumulate
        ? `total${j} += ${load4(w, 'biasGradient', j)};`
        : `total${j} += select(vec4f(), ${load4(w, 'biasGradient', j)}, k0 > 0u);`,
      ...store4(w, 'biasGradient', j, `total${j}`),
    ]),
  ];
  return ['if (group.y == 0u) {', ...lines.map((line) => `  ${line}`), '}'];
}

export function softwareText(product: Product, tile: SoftwareTile): string {
  const w = writer(product, tile);
  const { bias, gelu, geluBackward, biasGradient } = product.epilogue;
  const vectors = vectorsOf(w);
  const biases = bias ? vectors.map((j) => `let bias${j} = ${load4(w, 'bias', j)};`) : [];
  const starts = bias ? vectors.map((j) => `let start${j} = select(vec4f(), bias${j}, k0 == 0u);`) : [];
  const mText = dimText(product.layout === 'TN' ? known(product.m) : product.m, 'M');
  return `enable subgroups;

${declarations(product, w.width)}
var<private> panel: array<vec4f, ${w.tile.depth * w.tile.vectors}>;

${gelu || geluBackward ? `${geluText('vec4f')}\n` : ''}@compute @workgroup_size(${LANES})
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) lane: u32,
) {
  let column = group.x * ${VECTOR_COLUMNS * vectors.length}u + lane * 4u;
  let run = (${mText} + groups.y - 1u) / groups.y;
  let first = group.y * run;
  let end = min(first + run, ${mText});
${indent(biases, 1)}  for (var k0 = 0u; k0 < ${w.kText}; k0 += ${w.tile.depth}u) {
${indent([...panelText(w), ...sourcesText(w), ...starts], 2)}${indent(biasGradient ? biasGradientText(w) : [], 2)}    for (var m = first; m < end; m++) {
${indent(rowText(w), 3)}    }
  }
${indent(afterText(w), 1)}}
`;
}
