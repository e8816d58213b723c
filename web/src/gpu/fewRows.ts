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
  return (call) => known.get(place(call)) ?? inFewSteps(call.dims, rows);
}

/** Slices of a weight gradient, which a few rows are not cut into: of two steps. */
const inFewSteps = (dims: Dims, rows: number): Dims =>
  'S' in dims ? { ...dims, K: rows, S: Math.min(2, rows) } : { ...dims, count: Math.ceil(rows / 2) };
