/**
 * The matrix product for the few rows of answers, whose time is that of reading B once. No tile is staged: all rows of C
 * are made together, so each element of B is loaded by one invocation and multiplied with every row of A. M is at most
 * MOST_ROWS and stands in the text.
 *
 * A unit is what one invocation makes of each row of C: of NN a column, or four neighbouring ones; of NT a column, whose
 * row of B is walked along. On a software adapter an invocation has a unit alone, of NT one of four columns. On a GPU SPLITS invocations share it,
 * each with every SPLITS-th step of K, and add up their sums in workgroup memory; neighbours read neighbouring memory.
 */
import { invariant } from '../../swarm/base.ts';
import type { Source } from '../kernel/kernel.ts';
import type { LaneWidth } from '../kernel/lanes.ts';
import { finishText } from './epilogue.ts';
import { epilogueNames, type Product } from './product.ts';
import { component, indent, plus, range, tensorWidths, type Widths, widths } from './widths.ts';

export const MOST_ROWS = 16;
const SPLITS = 32;
const UNITS = 8;
const SOFTWARE_UNITS = 4;
const SOFTWARE_COLUMNS = 4;

interface FewRows {
  readonly product: Product;
  readonly rows: readonly number[];
  readonly width: Widths;
  /** Of a sum in registers: four columns of C, or four steps of K. */
  readonly sum: LaneWidth;
  readonly isGpu: boolean;
}

/** Units of a row of C. */
const unitsOf = (few: FewRows): number => Math.ceil(few.product.n / few.width.c / columnsOf(few));

export function fewRowsSource(product: Product, m: number, isGpu: boolean): Source {
  invariant(product.layout !== 'TN' && product.wider === undefined, 'few rows are of activations, of a whole weight');
  invariant(m <= MOST_ROWS, `${m} rows are not few`);
  const { layout, n, k, epilogue } = product;
  const all = widths(product);
  const width: Widths = layout === 'NT' ? { ...all, c: 1 } : { ...all, b: all.c };
  const few: FewRows = { product, rows: range(m), width, sum: layout === 'NT' ? all.a : all.c, isGpu };
  const size = isGpu ? UNITS : SOFTWARE_UNITS;
  return {
    key: ['matmul', isGpu ? 'gpu' : 'software', layout, ...epilogueNames(epilogue), `few ${m} k${k} n${n}`].join(' '),
    width: tensorWidths(width),
    workgroupSize: isGpu ? UNITS * SPLITS : SOFTWARE_UNITS,
    body: () => (isGpu ? gpuText(few) : softwareText(few)),
    workgroups: () => [Math.ceil(unitsOf(few) / size), 1, 1],
  };
}

const vectorOf = (width: LaneWidth): string => (width === 4 ? 'vec4f' : 'f32');

/** Steps of K that a turn of the loop takes, as loads of A. */
const turnsOf = ({ product: { k }, width }: FewRows): number => Number(k) / width.a;

/** What one turn adds to the sums; `k`: the turn. */
function turnText(few: FewRows): string[] {
  const { product, rows, width } = few;
  const { layout, n } = product;
  const k = Number(product.k);
  const as = rows.map((m) => `let a${m} = load_a(${(m * k) / width.a}u + k);`);
  const bs = (count: number, place: (i: number) => string, a: (m: number, i: number) => string): string[] =>
    range(count).flatMap((i) => [
      `let b${i} = load_b(${place(i)});`,
      ...rows.map((m) => `${sumName(few, m, i)} += ${a(m, i)} * b${i};`),
    ]);
  if (layout === 'NT')
    return [
      ...as,
      ...bs(
        columnsOf(few),
        (i) => `row${i} + k`,
        (m) => `a${m}`,
      ),
    ];
  const step = (i: number): string => (width.a === 4 ? `(4u * k + ${i}u)` : 'k');
  return [
    ...as,
    ...bs(
      width.a,
      (i) => `${step(i)} * ${n / width.b}u + unit`,
      (m, i) => (width.a === 4 ? `a${m}.${component(i)}` : `a${m}`),
    ),
  ];
}

/** Of NT: columns of a unit, whose rows of B are walked along together. */
const columnsOf = ({ product: { layout }, isGpu }: FewRows): number =>
  layout === 'NT' && !isGpu ? SOFTWARE_COLUMNS : 1;
const sumName = ({ product: { layout } }: FewRows, m: number, i: number): string =>
  layout === 'NT' ? `s${m}_${i}` : `s${m}_0`;
const columnOf = (few: FewRows, i: number): string =>
  few.width.c === 4 ? '4u * unit' : plus(columnsOf(few) > 1 ? `${columnsOf(few)}u * unit` : 'unit', i);

/** Before the loop: where the unit's rows of B begin. Columns past the last one are that one again, whose sums nobody stores. */
function rowsText(few: FewRows): string[] {
  const { layout, n, k } = few.product;
  if (layout !== 'NT') return [];
  return range(columnsOf(few)).map(
    (i) => `let row${i} = min(${columnOf(few, i)}, ${n - 1}u) * ${Number(k) / few.width.b}u;`,
  );
}

const sumsText = (few: FewRows): string[] =>
  few.rows.flatMap((m) => range(columnsOf(few)).map((i) => `var ${sumName(few, m, i)} = ${vectorOf(few.sum)}();`));

/** A sum as it is stored: of NT its four steps are added up. */
const wholeText = ({ product: { layout }, sum }: FewRows, name: string): string =>
  layout === 'NT' && sum === 4 ? `dot(${name}, vec4f(1))` : name;

function softwareText(few: FewRows): string {
  const { product, rows, width } = few;
  const stores = rows.flatMap((m) =>
    range(columnsOf(few)).map((i) => `finish(${m}u, ${columnOf(few, i)}, ${wholeText(few, sumName(few, m, i))});`),
  );
  return `${finishText(product, width.c)}
fn run(group: vec3u, groups: vec3u, local: u32) {
  let unit = group.x * ${SOFTWARE_UNITS}u + local;
  if (unit >= ${unitsOf(few)}u) { return; }
${indent([...rowsText(few), ...sumsText(few)], 1)}  for (var k = 0u; k < ${turnsOf(few)}u; k++) {
${indent(turnText(few), 2)}  }
${indent(stores, 1)}}
`;
}

function gpuText(few: FewRows): string {
  const { product, rows, width } = few;
  const isAlong = product.layout === 'NT';
  // Of NT neighbours walk along a row of B together; of NN they read neighbouring columns.
  const [unit, split] = isAlong
    ? [`local / ${SPLITS}u`, `local % ${SPLITS}u`]
    : [`local % ${UNITS}u`, `local / ${UNITS}u`];
  const part = (i: string): string =>
    isAlong ? `parts[local * ${SPLITS}u + ${i}]` : `parts[local + ${i} * ${UNITS}u]`;
  const added = rows.flatMap((m) => [
    `parts[local] = ${wholeText(few, sumName(few, m, 0))};`,
    'workgroupBarrier();',
    `if (local < ${UNITS}u) {`,
    `  var sum = ${vectorOf(width.c)}();`,
    `  for (var i = 0u; i < ${SPLITS}u; i++) { sum += ${part('i')}; }`,
    `  finish(${m}u, ${width.c}u * (group.x * ${UNITS}u + local), sum);`,
    '}',
    'workgroupBarrier();',
  ]);
  return `var<workgroup> parts: array<${vectorOf(width.c)}, ${UNITS * SPLITS}>;

${finishText(product, width.c)}
fn run(group: vec3u, groups: vec3u, local: u32) {
  let unit = min(group.x * ${UNITS}u + ${unit}, ${unitsOf(few) - 1}u);
${indent([...rowsText(few), ...sumsText(few)], 1)}  for (var k = ${split}; k < ${turnsOf(few)}u; k += ${SPLITS}u) {
${indent(turnText(few), 2)}  }
${indent(added, 1)}}
`;
}
