/**
 * Products of matrices, which the CPU reference is told how to make: plain float64 loops here, or a benchmark's own in
 * float32. Elements lie in rows, one after the other.
 */
export type Matrix = Float64Array | Float32Array;
/** By name. */
export type Matrices = ReadonlyMap<string, Matrix>;

/** A part of a matrix: element (i, j) stands `i·row + j·column` (else 1) elements behind `from` (else 0). */
export interface View {
  readonly values: Matrix;
  readonly from?: number;
  readonly row: number;
  readonly column?: number;
}

/** [P, Q] as [Q, P]: the same elements. */
export const turned = ({ values, from = 0, row, column = 1 }: View): View => ({
  values,
  from,
  row: column,
  column: row,
});

export interface Products {
  /** A new matrix that products may read and write. */
  zeros(length: number): Matrix;
  /** C [m, n] += A [m, k] · B [k, n]. The elements of a row of C are adjacent. */
  add(sizes: readonly [m: number, n: number, k: number], a: View, b: View, c: View): void;
}

export const plainProducts: Products = {
  zeros: (length) => new Float64Array(length),
  add([m, n, k], a, b, c) {
    const [aFrom, bFrom, cFrom] = [a.from ?? 0, b.from ?? 0, c.from ?? 0];
    const [aColumn, bColumn] = [a.column ?? 1, b.column ?? 1];
    for (let i = 0; i < m; i++) {
      const c_N = { values: c.values, from: cFrom + i * c.row };
      const a_K = { values: a.values, from: aFrom + i * a.row, step: aColumn };
      // Whichever loop is the inner one, it reads adjacent elements of B.
      if (bColumn === 1)
        for (let q = 0; q < k; q++)
          addScaled(c_N, a_K.values[a_K.from + q * aColumn] ?? 0, { values: b.values, from: bFrom + q * b.row }, n);
      else
        for (let j = 0; j < n; j++)
          add(c_N.values, c_N.from + j, dot(a_K, { values: b.values, from: bFrom + j * bColumn, step: b.row }, k));
    }
  },
};

/** Elements of a matrix from one on. */
interface Line {
  readonly values: Matrix;
  readonly from: number;
}

/** Σ a·b over `length` elements, `step` apart. */
function dot(a: Line & { readonly step: number }, b: Line & { readonly step: number }, length: number): number {
  let sum = 0;
  for (let i = 0; i < length; i++) sum += (a.values[a.from + i * a.step] ?? 0) * (b.values[b.from + i * b.step] ?? 0);
  return sum;
}

/** y += scale·x over `length` elements. */
export function addScaled(
  { values: y, from: yFrom }: Line,
  scale: number,
  { values: x, from: xFrom }: Line,
  length: number,
): void {
  for (let i = 0; i < length; i++) y[yFrom + i] = (y[yFrom + i] ?? 0) + scale * (x[xFrom + i] ?? 0);
}

/** y += x, all of it. */
export function addAll(y: Matrix, x: Matrix): void {
  for (let i = 0; i < y.length; i++) y[i] = (y[i] ?? 0) + (x[i] ?? 0);
}

/** y *= scale, all of it. */
export function scaleAll(y: Matrix, scale: number): void {
  for (let i = 0; i < y.length; i++) y[i] = (y[i] ?? 0) * scale;
}

/** y += the sum of all rows of x, each `width` long, from column `from` on. */
export function addRows(y: Matrix, x: Matrix, from: number, width: number): void {
  for (let row = from; row < x.length; row += width)
    for (let i = 0; i < y.length; i++) y[i] = (y[i] ?? 0) + (x[row + i] ?? 0);
}

export function add(values: Matrix, index: number, value: number): void {
  values[index] = (values[index] ?? 0) + value;
}
