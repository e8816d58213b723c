/** How the rows of a product's tensors are read: as vec4 where four divides their length. And words that its texts are written with. */
import { invariant } from '../../swarm/base.ts';
import type { LaneWidth } from '../kernel/lanes.ts';
import type { Product, ProductTensor } from './product.ts';

/** Floats of one element of each operand's rows. C's holds for bias, residual and pre too. */
export interface Widths {
  readonly a: LaneWidth;
  readonly b: LaneWidth;
  readonly c: LaneWidth;
}

export const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
export const component = (i: number): string => 'xyzw'.charAt(i);
/** `base + 3u`, or `base` alone for nothing added. */
export const plus = (base: string, added: number): string => (added === 0 ? base : `${base} + ${added}u`);
export const indent = (lines: readonly string[], depth: number): string =>
  lines.map((line) => `${' '.repeat(2 * depth)}${line}\n`).join('');

function known(dim: number | 'runtime'): number {
  invariant(dim !== 'runtime', 'this dim stands in the text of this layout');
  return dim;
}

/** Length of a row in memory: A's is M for TN, B's is K for NT, unless it is a part of a wider one. */
const aExtent = ({ layout, m, k }: Product): number => known(layout === 'TN' ? m : k);
export const aRow = (product: Product): number =>
  (product.layout === 'NT' ? undefined : product.wider) ?? aExtent(product);
export const cRow = ({ layout, n, wider }: Product): number => (layout === 'NT' ? wider : undefined) ?? n;
export const bRow = ({ layout, n, k }: Product): number => (layout === 'NT' ? known(k) : n);
/** A dim in the text: a literal, or the field of the uniform. */
export const dimText = (dim: number | 'runtime', name: 'M' | 'K'): string =>
  dim === 'runtime' ? `dims.${name}` : `${dim}u`;

export function widths(product: Product): Widths {
  const width = (...lengths: number[]): LaneWidth => (lengths.every((length) => length % 4 === 0) ? 4 : 1);
  return {
    a: width(aRow(product), aExtent(product)),
    b: width(bRow(product)),
    c: width(cRow(product), product.n),
  };
}

/** Of each tensor by its name. */
export const tensorWidths = ({ a, b, c }: Widths): Readonly<Record<ProductTensor, LaneWidth>> => ({
  ...{ a, b, c_MN: c, residual_MN: c, pre_MN: c, bias_N: c, dbias_N: c },
});
