/**
 * How a product's tensors appear in WGSL, and what the families write their texts with. The one idea: rows are read as
 * vec4 where four divides their length. A GPU's text indexes `a[row][column]`, with the lengths in the types and only the
 * outermost dim, where it is a run-time one, left open; a software adapter's text leaves all of them open.
 */
import { invariant } from '../../swarm/base.ts';
import { type Product, productTensors } from './product.ts';

export type VectorWidth = 1 | 4;

/** Floats of one element of each operand's rows. C's holds for bias, residual and pre too. */
export interface Widths {
  readonly a: VectorWidth;
  readonly b: VectorWidth;
  readonly c: VectorWidth;
}

export const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
export const component = (i: number): string => 'xyzw'.charAt(i);
/** `base + 3u`, or `base` alone for nothing added. */
export const plus = (base: string, added: number): string => (added === 0 ? base : `${base} + ${added}u`);
export const indent = (lines: readonly string[], depth: number): string =>
  lines.map((line) => `${' '.repeat(2 * depth)}${line}\n`).join('');

export function known(dim: number | 'runtime'): number {
  invariant(dim !== 'runtime', 'this dim stands in the text of this layout');
  return dim;
}

/** Length of a row in memory: A's is M for TN, B's is K for NT. */
export const aRow = ({ layout, m, k }: Product): number => known(layout === 'TN' ? m : k);
export const bRow = ({ layout, n, k }: Product): number => (layout === 'NT' ? known(k) : n);
/** A dim in the text: a literal, or the field of the uniform. */
export const dimText = (dim: number | 'runtime', name: 'M' | 'K'): string =>
  dim === 'runtime' ? `dims.${name}` : `${dim}u`;

export function widths(product: Product): Widths {
  const width = (row: number): VectorWidth => (row % 4 === 0 ? 4 : 1);
  return { a: width(aRow(product)), b: width(bRow(product)), c: width(product.n) };
}

export function declarations(product: Product, width: Widths): string {
  const { layout, m, n, k, epilogue, slices } = product;
  const row = (length: number, lanes: VectorWidth): string =>
    lanes === 4 ? `array<vec4f, ${length / 4}>` : `array<f32, ${length}>`;
  const matrix = (rows: number | 'runtime', length: number, lanes: VectorWidth): string =>
    `array<${row(length, lanes)}${rows === 'runtime' ? '' : `, ${rows}`}>`;
  const types: Readonly<Record<string, string>> = {
    a: matrix(layout === 'TN' ? k : m, aRow(product), width.a),
    b: matrix(layout === 'NT' ? n : k, bRow(product), width.b),
    c: matrix(slices ? 'runtime' : m, n, width.c),
    residual: matrix(m, n, width.c),
    pre: matrix(m, n, width.c),
    bias: row(n, width.c),
    biasGradient: row(n, width.c),
  };
  const tensors = productTensors(layout, epilogue, slices).map(({ name, access }, binding) => {
    const mode = access === 'read' ? 'read' : 'read_write';
    return `@group(0) @binding(${binding}) var<storage, ${mode}> ${name}: ${types[name]};\n`;
  });
  return `struct Dims { M: u32, N: u32, K: u32${slices ? ', S: u32' : ''} }
${tensors.join('')}@group(1) @binding(0) var<uniform> dims: Dims;
`;
}
