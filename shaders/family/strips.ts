/**
 * How the operands of a tile of C come to workgroup memory where matrix units multiply: as steps of K, side by side, zero
 * outside the matrix, so that whoever multiplies knows neither layouts nor remainders.
 */

import type { LaneWidth } from '../kernel/lanes.ts';
import { type BiasGradient, biasGradientStore, type GpuTile } from './epilogue.ts';
import type { Product } from './product.ts';
import { lastStepText } from './quads.ts';
import { aRow, bRow, component, dimText, plus, range, type Widths, widths } from './widths.ts';

/** How strips lie in workgroup memory. */
interface Staging {
  readonly element: 'f32' | 'f16';
  /** Elements between the end of a step of K and the next. */
  readonly padding: number;
}

/** A strip of an operand: `side` rows of C (or columns, for B) by `depth` steps of K. */
export interface Strip {
  readonly operand: 'a' | 'b';
  readonly element: Staging['element'];
  readonly width: LaneWidth;
  /** Of the operand in storage. */
  readonly rowLength: number;
  readonly side: number;
  readonly depth: number;
  /** Elements between steps of K in workgroup memory. */
  readonly pitch: number;
  /** Whether the operand's rows in storage run along K. */
  readonly alongDepth: boolean;
  /** First row (column) of the tile, and what it must stay below. */
  readonly start: string;
  readonly limit: string;
  readonly kText: string;
}

export function strips(product: Product, tile: GpuTile, { element, padding }: Staging): [Strip, Strip] {
  const width = widths(product);
  const kText = lastStepText(product);
  const { depth } = tile;
  const a: Strip = {
    operand: 'a',
    element,
    width: width.a,
    rowLength: aRow(product),
    side: tile.rows,
    depth,
    pitch: tile.rows + padding,
    alongDepth: product.layout !== 'TN',
    start: 'firstRow',
    limit: dimText(product.m, 'M'),
    kText,
  };
  const b: Strip = {
    operand: 'b',
    element,
    width: width.b,
    rowLength: bRow(product),
    side: tile.columns,
    depth,
    pitch: tile.columns + padding,
    alongDepth: product.layout === 'NT',
    start: 'firstColumn',
    limit: `${product.n}u`,
    kText,
  };
  return [a, b];
}

/** Rows of C are scalars: a store to one component of a vec4 may write the neighbours' components too. */
export const matrixWidths = (product: Product): Widths => ({ ...widths(product), c: 1 });

/** The strips' workgroup memory. */
export const memoryText = (both: readonly Strip[]): string =>
  both
    .map(
      ({ operand, element, depth, pitch }) => `var<workgroup> ${operand}Strip: array<${element}, ${depth * pitch}>;\n`,
    )
    .join('');

/** All loads of an invocation for the steps from k0 on. */
export const stagesText = (both: readonly Strip[], invocations: number): string[] =>
  both.flatMap((strip) =>
    range(Math.ceil((strip.side * strip.depth) / strip.width / invocations)).flatMap((turn) =>
      stageText(strip, turn, invocations),
    ),
  );

/** One load of this invocation: `turn` of as many as the strip needs. Outside the matrix the strip is zero. */
function stageText(strip: Strip, turn: number, invocations: number): string[] {
  const { operand, element, width, rowLength, side, depth, pitch, alongDepth, start, limit, kText } = strip;
  const perLine = (alongDepth ? depth : side) / width;
  const loads = (side * depth) / width;
  const value = width === 4 ? 'vec4f' : 'f32';
  const minor = width === 4 ? `(index % ${perLine}u) * 4u` : `index % ${perLine}u`;
  const [sideText, depthText] = alongDepth ? [`index / ${perLine}u`, minor] : [minor, `index / ${perLine}u`];
  const column = (text: string): string => (width === 4 ? `(${text}) / 4u` : text);
  const [row, place] = alongDepth ? [`${start} + side`, 'k0 + depth'] : ['k0 + depth', `${start} + side`];
  const at = `load_${operand}((${row}) * ${rowLength / width}u + ${column(place)})`;
  const word = (p: number): string =>
    alongDepth ? `(${plus('depth', p)}) * ${pitch}u + side` : plus(`depth * ${pitch}u + side`, p);
  const put = (text: string): string => (element === 'f16' ? `f16(${text})` : text);
  const store =
    width === 1
      ? [`${operand}Strip[depth * ${pitch}u + side] = ${put('value')};`]
      : range(4).map((p) => `${operand}Strip[${word(p)}] = ${put(`value.${component(p)}`)};`);
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

/** Column sums of B by the first row of tiles: one invocation a column adds up the strip that is staged anyway. */
export function biasGradientText(product: Product, tile: GpuTile, b: Strip): BiasGradient {
  if (!product.epilogue.biasGradient) return { before: [], loop: [], end: [] };
  const value = (text: string): string => (b.element === 'f16' ? `f32(${text})` : text);
  const sum = range(tile.depth).map((k) => value(`bStrip[${plus('local', k * b.pitch)}]`));
  const totals = `group.y == 0u && local < ${tile.columns}u`;
  return {
    before: ['var total = 0.0;'],
    loop: [`if (${totals}) { total += ${sum.join(' + ')}; }`],
    end: [
      `if (${totals} && firstColumn + local < ${product.n}u) {`,
      `  ${biasGradientStore(product, 1, 'firstColumn + local', 'total')}`,
      '}',
    ],
  };
}
