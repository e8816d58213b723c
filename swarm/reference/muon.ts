/**
 * Muon (Jordan 2024; the update's scale is Liu et al. 2025, arXiv 2502.16982) on the CPU: momentum, five Newton–Schulz steps
 * towards the nearest orthogonal matrix, and the update along it.
 *
 *   m ← µ·m + (1 − µ)·g,   u = µ·m + (1 − µ)·g,   X = u / max(‖u‖, 1e-7), turned where it has more rows than columns
 *   five times:  M = X·Xᵀ,   X ← (a·1 + b·M + c·M²)·X
 *   W ← W·(1 − rate·decay) − rate·0.2·√max(rows, columns)·X
 *
 * Elements are rounded as the arrays hold them: in float64 for the reference, in float32 for state in main memory, where
 * every machine makes the same bits.
 */
import { outside } from '../base.ts';
import type { WholeMatrix } from '../model/matrices.ts';
import { type Matrix, type Products, turned } from './products.ts';

/** Newton–Schulz steps, and their a, b and c. */
export const ORTHOGONAL_STEPS = 5;
export const ORTHOGONAL_FACTORS = [3.4445, -4.775, 2.0315] as const;
/** The least norm that a matrix is divided by. */
export const LEAST_NORM = 1e-7;

/** What an update moves a matrix by, as so many times the rate: an orthogonal matrix of this shape moves as AdamW would. */
export const muonScale = ({ rows, columns }: Pick<WholeMatrix, 'rows' | 'columns'>): number =>
  0.2 * Math.sqrt(Math.max(rows, columns));

/** The two sides of a matrix as it is orthogonalised: it has no more rows than columns. */
export const sidesOf = ({ rows, columns }: Pick<WholeMatrix, 'rows' | 'columns'>) => ({
  short: Math.min(rows, columns),
  long: Math.max(rows, columns),
});

interface MuonSettings {
  readonly momentum: number;
  readonly weightDecay: number;
  readonly rate: number;
  readonly clip: number;
}

/** Of one tensor, or of all of a shard; `first`: where the tensor begins in them. */
interface MuonArrays {
  readonly values: Matrix;
  readonly grads: Matrix;
  readonly m: Matrix;
  readonly first: number;
}

/** Multiplications between two yields. */
const PIECE_PRODUCTS = 2_000_000;

/** Room for what is worked out on the way, made once for each size. */
export class MuonRoom {
  readonly #products: Products;
  readonly #known = new Map<string, Matrix>();

  constructor(products: Products) {
    this.#products = products;
  }

  /** Updates one matrix; yields how many multiplications were done since the last time. */
  *update(arrays: MuonArrays, matrix: WholeMatrix, settings: MuonSettings): Generator<number> {
    const { short, long } = sidesOf(matrix);
    const [x, next] = [this.#matrix('x', short * long), this.#matrix('next', short * long)];
    const [square, polynomial] = [this.#matrix('square', short * short), this.#matrix('polynomial', short * short)];
    begin(x, arrays, matrix, settings);
    yield short * long;
    const [a, b, c] = ORTHOGONAL_FACTORS;
    const across = { values: x, row: long };
    const [m_SS, p_SS] = [
      { values: square, row: short },
      { values: polynomial, row: short },
    ];
    for (let step = 0; step < ORTHOGONAL_STEPS; step++) {
      yield* this.#product([short, short, long], across, turned(across), m_SS);
      yield* this.#product([short, short, short], m_SS, m_SS, p_SS);
      for (let i = 0; i < polynomial.length; i++)
        polynomial[i] = (i % (short + 1) === 0 ? a : 0) + b * (square[i] ?? 0) + c * (polynomial[i] ?? 0);
      yield* this.#product([short, long, short], p_SS, across, { values: next, row: long });
      x.set(next);
    }
    apply(x, arrays, matrix, settings);
    yield short * long;
  }

  /** C = A·B, some rows at a time. */
  *#product(
    [m, n, k]: readonly [number, number, number],
    a: { readonly values: Matrix; readonly row: number },
    b: Parameters<Products['add']>[2],
    c: { readonly values: Matrix; readonly row: number },
  ): Generator<number> {
    c.values.fill(0);
    const most = Math.max(1, Math.floor(PIECE_PRODUCTS / (n * k)));
    for (let from = 0; from < m; from += most) {
      const rows = Math.min(most, m - from);
      this.#products.add([rows, n, k], { ...a, from: from * a.row }, b, { ...c, from: from * c.row });
      yield rows * n * k;
    }
  }

  #matrix(name: string, length: number): Matrix {
    const key = `${name} ${length}`;
    const known = this.#known.get(key) ?? this.#products.zeros(length);
    this.#known.set(key, known);
    return known;
  }
}

/** Places of an element of X in the arrays, row by row of X. */
function* placesOf({ at, rows, columns, stride }: WholeMatrix, first: number): Generator<number> {
  const isTurned = rows > columns;
  const [outer, inner] = isTurned ? [columns, rows] : [rows, columns];
  const [step, next] = isTurned ? [1, stride] : [stride, 1];
  for (let i = 0; i < outer; i++) for (let j = 0; j < inner; j++) yield first + at + i * step + j * next;
}

function begin(
  x: Matrix,
  { grads, m, first }: MuonArrays,
  matrix: WholeMatrix,
  { momentum, clip }: MuonSettings,
): void {
  let [at, squares] = [0, 0];
  for (const place of placesOf(matrix, first)) {
    const gradient = (grads[place] ?? outside(grads, place)) * clip;
    m[place] = momentum * (m[place] ?? outside(m, place)) + (1 - momentum) * gradient;
    const u = momentum * (m[place] ?? 0) + (1 - momentum) * gradient;
    x[at++] = u;
    squares += u * u;
  }
  const norm = Math.max(Math.sqrt(squares), LEAST_NORM);
  for (let i = 0; i < x.length; i++) x[i] = (x[i] ?? 0) / norm;
}

function apply(x: Matrix, { values, first }: MuonArrays, matrix: WholeMatrix, settings: MuonSettings): void {
  const { rate, weightDecay } = settings;
  const [kept, step] = [1 - rate * weightDecay, rate * muonScale(matrix)];
  let at = 0;
  for (const place of placesOf(matrix, first)) {
    values[place] = (values[place] ?? outside(values, place)) * kept - step * (x[at++] ?? 0);
  }
}

/** Multiplications of an update of this matrix: what it costs its owner. */
export function muonProducts(matrix: Pick<WholeMatrix, 'rows' | 'columns'>): number {
  const { short, long } = sidesOf(matrix);
  return ORTHOGONAL_STEPS * short * short * (2 * long + short);
}
