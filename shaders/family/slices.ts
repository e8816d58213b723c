/**
 * Products in slices of K. A weight gradient has few elements and sums over all rows of a micro-batch, the gradient of the
 * head's input has few and sums over the vocabulary: their tiles are fewer than a GPU has room for. So K is cut into slices,
 * each slice's sums are made by workgroups of their own, and a second kernel adds them up in order (sumSlices.ts): the same
 * bits at every run, and no atomics.
 *
 * The slices' sums lie where something else is going to be written next (a weight gradient's where the gradient of the
 * product's input will be), so they take no memory of their own; they are as many as find room there. Other products are not
 * cut: where their grid is small their K, a width of the model, is short too.
 */

import type { Product } from './product.ts';
import { dimText } from './widths.ts';

/** Fewer steps of K in a slice are not worth their way through memory. */
const LEAST_STEPS = 256;
const MOST_SLICES = 16;
/** Where K runs along A's rows a slice begins at whole quads of it, and at whole stretches of any tile. */
export const ALIGNED_STEPS = 128;

/** Steps of K in a slice, and how many slices there are: one is the product as it is. */
export interface Slices {
  readonly steps: number;
  readonly count: number;
}

/**
 * `busy`: how much of a GPU the product keeps busy as it is; `room`: how many slices' sums there is room for. Slices begin
 * at multiples of `aligned` steps.
 */
export function slicesOf(busy: number, k: number, room: number, aligned = 1): Slices {
  const wanted = Math.min(Math.ceil(1 / busy), Math.floor(k / LEAST_STEPS), MOST_SLICES, room);
  if (wanted <= 1) return { steps: k, count: 1 };
  const steps = Math.ceil(k / wanted / aligned) * aligned;
  return { steps, count: Math.ceil(k / steps) };
}

/** Names in the text: where a slice ends, and its first row in C. */
export const LAST_STEP = 'lastStep';
export const SLICE_ROW = 'sliceRow';

/** A slice's rows in C: those of the sums and, behind them, the bias gradient. */
export const sliceRows = (m: number, biasGradient: boolean | undefined): number => m + (biasGradient ? 1 : 0);
const sliceRowsText = (m: number | 'runtime', biasGradient: boolean | undefined): string =>
  m === 'runtime' ? dimText(m, 'M') : `${sliceRows(m, biasGradient)}u`;

/** At the start of a workgroup: where its steps of K begin and end. */
export function slicesOfStepsText({ slices, m, epilogue }: Product): { before: string[]; first: string } {
  if (!slices) return { before: [], first: '0u' };
  return {
    before: [
      'let firstStep = group.z * dims.S;',
      `let ${LAST_STEP} = min(firstStep + dims.S, dims.K);`,
      `${SLICE_ROW} = group.z * ${sliceRowsText(m, epilogue.biasGradient)};`,
    ],
    first: 'firstStep',
  };
}
