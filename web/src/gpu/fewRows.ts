/**
 * The shapes in which a kernel is compared with its reference in JavaScript: those of a micro-batch of a few rows. A call
 * of a real micro-batch is found again among the few rows' by its kernel and label.
 */
import type { Dims } from '../../../shaders/kernel/kernel.ts';
import type { KernelCall } from './kernelCall.ts';

const place = ({ kernel, label }: KernelCall): string => `${kernel.name} ${label}`;

/** `few`: what a micro-batch of `rows` rows calls. */
export function atFewRows(few: readonly KernelCall[], rows: number): (call: KernelCall) => Dims {
  const known = new Map(few.map((call) => [place(call), call.dims]));
  return (call) => known.get(place(call)) ?? inFewSteps(call, rows);
}

/** Slices of a weight gradient, which a few rows are not cut into: of two steps. Those of an input's go over no rows. */
function inFewSteps({ kernel, dims }: KernelCall, rows: number): Dims {
  if (!('S' in dims)) return { ...dims, count: Math.ceil(rows / 2) };
  return kernel.name.startsWith('matmul.TN') ? { ...dims, K: rows, S: Math.min(2, rows) } : { ...dims, M: rows };
}
