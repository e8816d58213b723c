/**
 * The matrix product for software adapters (SwiftShader). A workgroup is one row of four lanes that copies a panel of
 * B, up to 128 deep and 32 columns wide, into private memory and walks down rows of C with it. Memory is what costs
 * there: every access to storage is a gather of lanes, vec4 loads are the cheapest per element, workgroup memory is no
 * faster and barriers switch coroutines; private memory at a constant index is one plain load. So the row's text is
 * written out, an element of A is loaded by one lane and handed round, and C is read and written once a panel. (A panel
 * in named values is as fast, but takes the JIT eight times as long: every gather is a dozen branches, and all those
 * values live across them.)
 *
 * Lane l holds the columns 4l…4l+3 of each 16. The four lanes' elements of A go round by rotations: after rotation r
 * lane l has what lane l ^ r loaded. A rotation is one machine instruction, a broadcast six. So every lane meets the
 * elements in an order of its own, and the panel is copied in that order too. Sums over a panel are made in registers,
 * panels are added in C: the bits depend on K alone, not on how rows are dealt to workgroups.
 *
 * What a donor's start costs is mostly the JIT's time, and that goes with the text: some 10 µs an operation, 2 ms a vec4
 * load. So dims are read from the uniform and the text depends only on what changes it (`Writer`): a model's dozen shapes
 * share a few texts, which are no slower; and the panel is copied by a loop with one load for each vector.
 */

import type { LaneWidth } from '../kernel/lanes.ts';
import { SOFTWARE_LANES as LANES } from './adapterFamily.ts';
import { geluText, type Product } from './product.ts';
import { ruleFor, SOFTWARE_TILES, type SoftwareRule } from './tiles.ts';
import { component, indent, plus, range, type Widths, widths } from './widths.ts';

/** Four columns for each lane. */
const VECTOR_COLUMNS = 4 * LANES;
/** Steps of K that a row takes at once: four for each lane. */
const GROUP_STEPS = 4 * LANES;
/** For TN, where K is a run-time dim, there are two texts: the deep one where it wastes nothing. */
const SHALLOW_PANEL = 64;

interface SoftwareTile {
  /** Steps of K in a panel. */
  readonly depth: number;
  /** vec4s of columns a lane holds: a panel is 16 times as wide. */
  readonly vectors: number;
}

/** All that a text depends on. */
interface Writer {
  readonly layout: Product['layout'];
  readonly epilogue: Product['epilogue'];
  readonly tile: SoftwareTile;
  readonly width: Widths;
  /** Whether K may be no multiple of the panel's depth. */
  readonly hasDepthTail: boolean;
  readonly isOnePanel: boolean;
  /** A (of NT: C) is some columns of a matrix with rows of P. */
  readonly isOfWider: boolean;
}

/** For TN the elements of A along K are rows apart: scalar loads. */
export function softwareWidths(product: Product): Widths {
  const width = widths(product);
  return product.layout === 'TN' ? { ...width, a: 1 } : width;
}

/** Elements of the matrix that does not vary with the micro-batch. */
export function weights({ m, n, k }: Product): number {
  const rows = k === 'runtime' ? m : k;
  return rows === 'runtime' ? Number.POSITIVE_INFINITY : rows * n;
}

/**
 * `k` is the actual K, `deepest` the table's choice or the one that is tuned. Of a wider matrix the panels are those of the
 * whole: its parts, one added onto the other, then make the same bits.
 */
export function softwareTile(
  product: Product,
  k: number,
  { depth: deepest }: Pick<SoftwareRule, 'depth'> = ruleFor(SOFTWARE_TILES, product.layout, weights(product)),
): SoftwareTile {
  const vectors = product.n <= VECTOR_COLUMNS ? 1 : 2;
  if (product.k === 'runtime') {
    const isEven = Math.ceil(k / SHALLOW_PANEL) % 2 === 0;
    return { depth: isEven ? deepest : Math.min(deepest, SHALLOW_PANEL), vectors };
  }
  const whole = product.layout === 'NN' ? (product.wider ?? k) : k;
  const panels = Math.ceil(whole / deepest);
  return { depth: Math.ceil(whole / panels / GROUP_STEPS) * GROUP_STEPS, vectors };
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
  const { layout, epilogue, k } = product;
  // A model has these with one panel and with several (K is its width, and four times that): one text for both compiles
  // in half the time, and reading a C that does not count costs the few with one panel a tenth of theirs.
  const isOfAnyDepth = epilogue.residual === true || (layout === 'NT' && !epilogue.geluBackward);
  return {
    layout,
    epilogue,
    tile,
    width: softwareWidths(product),
    hasDepthTail: k === 'runtime' || k % tile.depth !== 0,
    isOnePanel: k !== 'runtime' && k <= tile.depth && !isOfAnyDepth,
    isOfWider: product.wider !== undefined,
  };
}

/** What tells one text of a layout and an epilogue from another. */
export function softwareKey(product: Product, tile: SoftwareTile): string {
  const { width, hasDepthTail, isOnePanel, isOfWider } = writer(product, tile);
  const named = { 'one panel': isOnePanel, 'depth tail': hasDepthTail, 'of wider': isOfWider };
  const flags = Object.entries(named).flatMap(([name, holds]) => (holds ? [name] : []));
  return [`${tile.depth}x${VECTOR_COLUMNS * tile.vectors}`, `w${width.a}${width.b}${width.c}`, ...flags].join(' ');
}

const groupsOf = (w: Writer): number[] => range(w.tile.depth / GROUP_STEPS);
const vectorsOf = (w: Writer): number[] => range(w.tile.vectors);

/** Vector j of the columns in a tensor laid out as C is, from `at` on. Past the last column it is never stored. */
function load4(w: Writer, tensor: string, at: string, j: number): string {
  if (w.width.c === 4) return `load_${tensor}(${plus(at, LANES * j)})`;
  return `vec4f(${range(4)
    .map((i) => `load_${tensor}(${plus(at, VECTOR_COLUMNS * j + i)})`)
    .join(', ')})`;
}

function store4(w: Writer, tensor: string, at: string, j: number, value: string): string[] {
  // A store is by lanes anyhow: the guard costs nothing, and spares a text for each kind of N.
  const guarded = (offset: number, store: string): string => `if (${plus('column', offset)} < dims.N) { ${store} }`;
  const offset = VECTOR_COLUMNS * j;
  if (w.width.c === 4) return [guarded(offset, `store_${tensor}(${plus(at, LANES * j)}, ${value});`)];
  return range(4).map((i) =>
    guarded(offset + i, `store_${tensor}(${plus(at, offset + i)}, ${value}.${component(i)});`),
  );
}

/**
 * Copies the panel: its vec4 (i · vectors + j) is what this lane multiplies at step i with vector j of its columns, step
 * i = 16g + 4r + p by element p of load g after rotation r. Past K it is zero.
 */
function panelText(w: Writer): string[] {
  const { layout, width, epilogue } = w;
  const { depth, vectors } = w.tile;
  const panel = (step: string, j: number): string =>
    `panel[${plus(vectors === 1 ? step : `(${step}) * ${vectors}u`, j)}]`;
  const first = `k0 + i / ${GROUP_STEPS}u * ${GROUP_STEPS}u`;
  const turned = `(lane ^ (i / 4u % ${LANES}u))`;
  const guarded = (value: string, holds: string): string =>
    w.hasDepthTail ? `select(vec4f(), ${value}, ${holds})` : value;
  const body: string[] = [];
  if (layout !== 'NT') {
    const step = width.a === 4 ? `${turned} * 4u + i % 4u` : `i % 4u * ${LANES}u + ${turned}`;
    body.push(`let k = ${first} + ${step};`, `let row = k * rowOfB + ${columnText(w)};`);
    for (const j of vectorsOf(w)) {
      body.push(`let value${j} = ${guarded(load4(w, 'b', 'row', j), 'k < dims.K')};`, `${panel('i', j)} = value${j};`);
      if (epilogue.biasGradient) body.push(`total${j} += value${j};`);
    }
  } else {
    // A row of B is a column of C: turn i has column i % 4 of each vector, for the four steps of a load and a rotation.
    const isWide = width.b === 4;
    body.push(`let k = ${first} + ${isWide ? `${turned} * 4u` : turned};`);
    const holds = isWide ? 'k < dims.K' : `k + vec4u(${range(4).map((p) => p * LANES)}) < vec4u(dims.K)`;
    for (const j of vectorsOf(w)) {
      const column = plus('column + i % 4u', VECTOR_COLUMNS * j);
      const scalars = range(4).map((p) => `load_b(${plus(`row${j}`, p * LANES)})`);
      body.push(
        `let row${j} = (${column}) * rowOfB + k${isWide ? ' / 4u' : ''};`,
        `let value${j} = ${guarded(isWide ? `load_b(row${j})` : `vec4f(${scalars.join(', ')})`, holds)};`,
        ...range(4).map((p) => `${panel(plus('i / 4u * 4u', p), j)}[i % 4u] = value${j}.${component(p)};`),
      );
    }
  }
  return [`for (var i = 0u; i < ${depth}u; i++) {`, ...body.map((line) => `  ${line}`), '}'];
}

/** Elements of memory in a row of each operand. */
function rowsText({ layout, width, isOfWider }: Writer): string[] {
  const row = (length: 'N' | 'K' | 'P', lanes: LaneWidth): string => `dims.${length}${lanes === 4 ? ' / 4u' : ''}`;
  return [
    ...(layout === 'TN' ? [] : [`let rowOfA = ${row(layout === 'NN' && isOfWider ? 'P' : 'K', width.a)};`]),
    `let rowOfB = ${row(layout === 'NT' ? 'K' : 'N', width.b)};`,
    `let rowOfC = ${row(layout === 'NT' && isOfWider ? 'P' : 'N', width.c)};`,
  ];
}
const columnText = ({ width }: Writer): string => (width.c === 4 ? 'column / 4u' : 'column');

/**
 * Where A is read, but for the row. Past K the last element is loaded again (the panel is zero there): this row's sum has
 * that value in it already, so an infinity spoils no other row.
 */
function sourcesText(w: Writer): string[] {
  const clamped = (index: string, last: string): string => (w.hasDepthTail ? `min(${index}, ${last})` : index);
  const sources = w.width.a === 4 ? groupsOf(w) : range(w.tile.depth / LANES);
  return sources.map((q) => {
    const offset = LANES * q;
    if (w.width.a === 4) return `let at${q} = ${clamped(`${plus('k0 / 4u', offset)} + lane`, 'dims.K / 4u - 1u')};`;
    const k = clamped(`${plus('k0', offset)} + lane`, 'dims.K - 1u');
    const row = w.isOfWider ? 'dims.P' : 'dims.M';
    return w.layout === 'TN' ? `let at${q} = ${w.hasDepthTail ? k : `(${k})`} * ${row};` : `let at${q} = ${k};`;
  });
}

/** `a0_1`: four elements of load 0, after rotation 1. */
function elementsText(w: Writer): string[] {
  const base = w.layout === 'TN' ? 'm' : 'row';
  const load = (g: number): string =>
    w.width.a === 4
      ? `load_a(${base} + at${g})`
      : `vec4f(${range(4)
          .map((p) => `load_a(${base} + at${4 * g + p})`)
          .join(', ')})`;
  return [
    ...(w.layout === 'TN' ? [] : ['let row = m * rowOfA;']),
    ...groupsOf(w).map((g) => `let a${g}_0 = ${load(g)};`),
    ...groupsOf(w).flatMap((g) => [
      `let a${g}_1 = quadSwapX(a${g}_0);`,
      `let a${g}_2 = quadSwapY(a${g}_0);`,
      `let a${g}_3 = quadSwapDiagonal(a${g}_0);`,
    ]),
  ];
}

/** What is done to a row's sums over all panels; `at` is the row's place in C. */
function finishText(w: Writer): string[] {
  const { gelu, geluBackward, residual } = w.epilogue;
  const vectors = vectorsOf(w);
  const lines: string[] = [];
  if (gelu) lines.push(...vectors.flatMap((j) => [...store4(w, 'pre_MN', 'at', j, `s${j}`), `s${j} = gelu(s${j});`]));
  if (geluBackward) lines.push(...vectors.map((j) => `s${j} *= geluSlope(${load4(w, 'pre_MN', 'at', j)});`));
  if (residual) lines.push(...vectors.map((j) => `s${j} += ${load4(w, 'residual_MN', 'at', j)};`));
  return lines;
}

const placeText = (w: Writer): string => `let at = m * rowOfC + ${columnText(w)};`;

/**
 * The epilogue of several panels: a walk of its own down the rows. To load and store C once more costs less than an `if`
 * for the last panel in every row of every panel, which made a product with a residual up to 1.7 times as long.
 */
function afterText(w: Writer): string[] {
  const lines = w.isOnePanel ? [] : finishText(w);
  if (lines.length === 0) return [];
  const vectors = vectorsOf(w);
  const row = [
    placeText(w),
    ...vectors.map((j) => `var s${j} = ${load4(w, 'c_MN', 'at', j)};`),
    ...lines,
    ...vectors.flatMap((j) => store4(w, 'c_MN', 'at', j, `s${j}`)),
  ];
  return ['for (var m = first; m < end; m++) {', ...row.map((line) => `  ${line}`), '}'];
}

/** One row of C: the sums over this panel, what C holds from the panels before, the epilogue of an only panel, the store. */
function rowOfC(w: Writer): string[] {
  const { bias, accumulate } = w.epilogue;
  const vectors = vectorsOf(w);
  // A select, not a branch: branches cost this adapter more than the load.
  const carried = vectors.map((j) =>
    accumulate
      ? `s${j} += ${load4(w, 'c_MN', 'at', j)};`
      : `s${j} += select(vec4f(), ${load4(w, 'c_MN', 'at', j)}, k0 > 0u);`,
  );
  const term = (i: number, j: number): string => {
    const [g, r, p] = [Math.floor(i / GROUP_STEPS), Math.floor(i / 4) % LANES, i % 4];
    return `s${j} += a${g}_${r}.${component(p)} * panel[${i * w.tile.vectors + j}];`;
  };
  return [
    ...elementsText(w),
    ...vectors.map((j) => `var s${j} = ${bias ? `start${j}` : 'vec4f()'};`),
    ...range(w.tile.depth).map((i) => vectors.map((j) => term(i, j)).join(' ')),
    placeText(w),
    ...(accumulate || !w.isOnePanel ? carried : []),
    ...(w.isOnePanel ? finishText(w) : []),
    ...vectors.flatMap((j) => store4(w, 'c_MN', 'at', j, `s${j}`)),
  ];
}

/** Column sums of B, by the first run of rows of each strip: in its copy of the panel a lane meets every step of K once. */
function biasGradientText(w: Writer): string[] {
  const lines = vectorsOf(w).flatMap((j) => {
    const before = load4(w, 'dbias_N', columnText(w), j);
    const added = w.epilogue.accumulate ? before : `select(vec4f(), ${before}, k0 > 0u)`;
    return [`total${j} += ${added};`, ...store4(w, 'dbias_N', columnText(w), j, `total${j}`)];
  });
  return ['if (group.y == 0u) {', ...lines.map((line) => `  ${line}`), '}'];
}

export function softwareText(product: Product, tile: SoftwareTile): string {
  const w = writer(product, tile);
  const { bias, gelu, geluBackward, biasGradient } = product.epilogue;
  const vectors = vectorsOf(w);
  const biases = bias ? vectors.map((j) => `let bias${j} = ${load4(w, 'bias_N', columnText(w), j)};`) : [];
  const starts = bias ? vectors.map((j) => `let start${j} = select(vec4f(), bias${j}, k0 == 0u);`) : [];
  const totals = biasGradient ? vectors.map((j) => `var total${j} = vec4f();`) : [];
  return `var<private> panel: array<vec4f, ${w.tile.depth * w.tile.vectors}>;

${gelu || geluBackward ? `${geluText('vec4f')}\n` : ''}fn run(group: vec3u, groups: vec3u, lane: u32) {
  let column = group.x * ${VECTOR_COLUMNS * vectors.length}u + lane * 4u;
  let run = (dims.M + groups.y - 1u) / groups.y;
  let first = group.y * run;
  let end = min(first + run, dims.M);
${indent([...rowsText(w), ...biases], 1)}  for (var k0 = 0u; k0 < dims.K; k0 += ${w.tile.depth}u) {
${indent([...totals, ...panelText(w), ...sourcesText(w), ...starts], 2)}${indent(biasGradient ? biasGradientText(w) : [], 2)}    for (var m = first; m < end; m++) {
${indent(rowOfC(w), 3)}    }
  }
${indent(afterText(w), 1)}}
`;
}
