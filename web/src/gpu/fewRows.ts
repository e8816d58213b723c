/**
 * The shapes in which a kernel is compared with its reference in JavaScript: those of a micro-batch of a few rows. A dispatch
 * of a real micro-batch is found again among the few rows' by its kernel and label.
 */
import type { Dims } from '../../../shaders/kernel.ts';
import type { Dispatch } from './dispatch.ts';

const place = ({ kernel, label }: Dispatch): string => `${kernel.name} ${label}`;

/** `few`: what a micro-batch of `rows` rows dispatches. */
export function atFewRows(few: readonly Dispatch[], rows: number): (dispatch: Dispatch) => Dims {
  const known = new Map(few.map((dispatch) => [place(dispatch), dispatch.dims]));
  return (dispatch) => known.get(place(dispatch)) ?? inFewSteps(dispatch.dims, rows);
}

/** Slices of a weight gradient, which a few rows are not cut into: of two steps. */
const inFewSteps = (dims: Dims, rows: number): Dims =>
  'S' in dims ? { ...dims, K: rows, S: Math.min(2, rows) } : { ...dims, count: Math.ceil(rows / 2) };
