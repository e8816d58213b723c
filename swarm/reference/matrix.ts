/**
 * Tensors of the CPU reference: float64, row-major, found by their full names. Innermost loops over whole rows are here,
 * since a call for each element costs more than its product.
 */
import { got, outside } from '../base.ts';

export type Matrix = Float64Array;
export type Matrices = ReadonlyMap<string, Matrix>;

export const matrix = (matrices: Matrices, name: string): Matrix => got(matrices, name);

/** The gradient of `name`, zeros at first. */
export function gradient(gradients: Map<string, Matrix>, name: string, elements: number): Matrix {
  const found = gradients.get(name) ?? new Float64Array(elements);
  gradients.set(name, found);
  return found;
}

/** Elements of a matrix from one on, `step` (else 1) apart. */
interface Line {
  readonly values: Matrix;
  readonly from: number;
  readonly step?: number;
}

/** Σ a·b over `length` elements. */
export function dot(a: Line, b: Line, length: number): number {
  const [aStep, bStep] = [a.step ?? 1, b.step ?? 1];
  let sum = 0;
  for (let i = 0; i < length; i++) {
    const [iA, iB] = [a.from + i * aStep, b.from + i * bStep];
    sum += (a.values[iA] ?? outside(a.values, iA)) * (b.values[iB] ?? outside(b.values, iB));
  }
  return sum;
}

/** y += scale·x over `length` elements. */
export function addScaled(y: Line, scale: number, x: Line, length: number): void {
  const [yStep, xStep] = [y.step ?? 1, x.step ?? 1];
  for (let i = 0; i < length; i++) {
    const [iY, iX] = [y.from + i * yStep, x.from + i * xStep];
    y.values[iY] = (y.values[iY] ?? outside(y.values, iY)) + scale * (x.values[iX] ?? outside(x.values, iX));
  }
}

/** y += x, all of it. */
export function addAll(y: Matrix, x: Matrix): void {
  addScaled({ values: y, from: 0 }, 1, { values: x, from: 0 }, y.length);
}

/** Reads an element that lies within. Apart from `at`, since V8 reads one kind of array faster than all kinds. */
export const read = (values: Matrix, index: number): number => values[index] ?? outside(values, index);

export function add(values: Matrix, index: number, value: number): void {
  values[index] = read(values, index) + value;
}
