/** What the two families for GPUs share: a tile of C, and how its elements leave. */

import type { LaneWidth } from '../kernel/lanes.ts';
import { geluText, type Product } from './product.ts';
import { SLICE_ROW } from './slices.ts';
import { cRow, dimText, indent } from './widths.ts';

/** A tile of C, made so many steps of K at a time. */
export interface GpuTile {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
}

/** The first row of a slice in C, where there are slices: `finish` needs it too. */
export const sliceRowText = ({ slices }: Product): string => (slices ? `var<private> ${SLICE_ROW}: u32;\n` : '');

/** Where a row of C begins, by that of the product. */
const rowText = ({ slices }: Product, row: string): string => (slices ? `(${SLICE_ROW} + ${row})` : row);

/** `finish(m, n, sum)` is all that happens to an element of C, or to four from column n on, once it is summed. */
export function finishText(product: Product, width: LaneWidth): string {
  const { bias, gelu, geluBackward, residual, accumulate } = product.epilogue;
  const value = width === 4 ? 'vec4f' : 'f32';
  const column = width === 4 ? 'n / 4u' : 'n';
  const lines = [
    `let i = ${rowText(product, 'm')} * ${cRow(product) / width}u + ${column};`,
    'var v = sum;',
    ...(bias ? [`v += load_bias_N(${column});`] : []),
    ...(gelu ? ['store_pre_MN(i, v);', 'v = gelu(v);'] : []),
    ...(geluBackward ? ['v *= geluSlope(load_pre_MN(i));'] : []),
    ...(residual ? ['v += load_residual_MN(i);'] : []),
    `store_c_MN(i, ${accumulate ? 'load_c_MN(i) + v' : 'v'});`,
  ];
  return `${gelu || geluBackward ? `${geluText(value)}\n` : ''}fn finish(m: u32, n: u32, sum: ${value}) {
  if (m >= ${dimText(product.m, 'M')} || n >= ${product.n}u) { return; }
${indent(lines, 1)}}
`;
}

/** Lines of a bias gradient, the column sums of B: before the loop over K, in it, and behind it. */
export interface BiasGradient {
  readonly before: string[];
  readonly loop: string[];
  readonly end: string[];
}

/** Where column sums are stored: a slice's lie behind its rows of C. `place`: the column, or its quad. */
export function biasGradientStore(product: Product, width: LaneWidth, place: string, total: string): string {
  const { m, n, epilogue, slices } = product;
  const target = slices ? 'c_MN' : 'dbias_N';
  const at = slices ? `${rowText(product, dimText(m, 'M'))} * ${n / width}u + ${place}` : place;
  return `store_${target}(${at}, ${epilogue.accumulate ? `load_${target}(${at}) + ${total}` : total});`;
}
