/**
 * A model whose numbers are whole, so that its training comes out the same to the last bit however it is cut, and
 * otherwise as soon as a sample, a value or a step is missed, doubled or stale. All of it is arithmetic modulo a prime
 * below 2^23: a float32 holds every number, a float64 every product. It is no transformer; it has its blocks, its
 * tensors' sizes and its order of work.
 *
 * Letters: C width, T positions, N rows. A layer is y = x·h + g with h and g out of all its values. Of each block two sums
 * over all rows are the gradient: element j has (s·weight(j) + u·value_j), but for the embedding's, which has s alone, and in
 * the token table one for each token.
 */
import type { BlockName, Model } from '../../../../swarm/model/model.ts';

/** The largest prime below 2^23. */
const P = 8_388_593;
/** Scalars of an update become whole numbers of so many parts. */
const PARTS = 2 ** 20;
/** What a norm and a loss see of a number, so that both are what a real run's might be. */
const SEEN = 1_024;

export type Values = Float32Array<ArrayBuffer>;

const weight = (index: number): number => (index * 7_919 + 12_345) % P;

/** Something that changes with each of the values and with their places. */
export function mixed(values: ArrayLike<number>, from = 0, to = values.length): number {
  let sum = 1;
  for (let index = from; index < to; index++) sum = (sum + (values[index] ?? 0) * weight(index)) % P;
  return sum;
}

export function initialValues(model: Model, name: BlockName): Values {
  const place = model.blocks.findIndex((block) => block.name === name);
  const { elements } = model.blocks[place] ?? { elements: 0 };
  return Float32Array.from({ length: elements }, (_, index) => (weight(index) * (place + 3) + 77) % P);
}

/** The two sums that a block's gradient is made of. */
export interface Sums {
  s: number;
  u: number;
  /** Of the embedding: by token, in place of s. */
  rows?: Map<number, number>;
}

export const gradientAt = ({ s, u }: Omit<Sums, 'rows'>, index: number, value: number): number =>
  (((s * weight(index)) % P) + (u === 0 ? 0 : (u * value) % P)) % P;

/** Of a block's own use: a row of the token table has one where its token came. */
export function gradientOfUse(model: Model, name: BlockName, sums: Sums, index: number, value: number): number {
  const row = Math.floor(index / model.width);
  const isToken = name === 'embedding' && row < model.vocabulary;
  return gradientAt(isToken ? { s: sums.rows?.get(row) ?? 0, u: 0 } : sums, index, value);
}

export const added = (one: number, other: number): number => (one + other) % P;

/** As rounding does it, the sum tells in which order its parts came. */
export const addedInOrder = (one: number, other: number): number => (3 * one + other) % P;

/** [N, C] of rows with these tokens. */
export function embedded(model: Model, values: Values, ids: Uint32Array, sequence: number): Values {
  const { width, vocabulary } = model;
  const all = mixed(values);
  const rows = new Float32Array(ids.length * width);
  for (const [row, id] of ids.entries()) {
    const position = vocabulary + (row % sequence);
    for (let c = 0; c < width; c++) {
      const token = values[id * width + c] ?? 0;
      rows[row * width + c] = (3 * token + (values[position * width + c] ?? 0) * 5 + all + c) % P;
    }
  }
  return rows;
}

const factorOf = (values: Values): number => mixed(values) || 1;

export function layer(values: Values, x: Values): Values {
  const h = factorOf(values);
  const g = (h * 17 + 1) % P;
  return x.map((one) => (((one * h) % P) + g) % P);
}

/** The gradient of the layer's input, after its own sums have grown. */
export function layerBack(values: Values, x: Values, dy: Values, sums: Sums): Values {
  const h = factorOf(values);
  for (const [index, d] of dy.entries()) {
    sums.s = (sums.s + d * (x[index] ?? 0)) % P;
    sums.u = (sums.u + d) % P;
  }
  return dy.map((d) => (d * h) % P);
}

/** What the head makes of each row: one number. */
export function headRows(model: Model, table: Values, head: Values, x: Values, targets: Uint32Array): number[] {
  const { width, vocabulary } = model;
  const all = added(mixed(table, 0, vocabulary * width), mixed(head));
  return Array.from(targets, (target, row) => {
    let z = (all + target * 31) % P;
    for (let c = 0; c < width; c++) z = (z + (x[row * width + c] ?? 0) * (c + 1)) % P;
    return z;
  });
}

/** Between 1 and 2 nats, in parts of which sums are exact. */
export const lossOf = (z: number): number => 1 + (z % SEEN) / SEEN;

export function headBack(
  { width }: Model,
  z_N: readonly number[],
  targets: Uint32Array,
  table: Sums,
  head: Sums,
): Values {
  const dx = new Float32Array(z_N.length * width);
  for (const [row, z] of z_N.entries()) {
    const target = targets[row] ?? 0;
    head.s = added(head.s, z);
    head.u = added(head.u, target);
    table.s = (table.s + z * (target + 1)) % P;
    table.u = added(table.u, z);
    for (let c = 0; c < width; c++) dx[row * width + c] = (z * (c + 5) + target) % P;
  }
  return dx;
}

/** Its rows' gradients need no values. */
export function embeddedBack(ids: Uint32Array, dx: Values, width: number, sums: Sums): void {
  for (const [index, d] of dx.entries()) {
    const id = ids[Math.floor(index / width)] ?? 0;
    const rows = sums.rows ?? new Map<number, number>();
    sums.rows = rows;
    rows.set(id, ((rows.get(id) ?? 0) + d * (id + 1)) % P);
    sums.s = (sums.s + d * (id + 1)) % P;
  }
}

/** Exact in whatever order it is added. */
export const squared = (gradient: number): number => (gradient % SEEN) ** 2;

export interface State {
  readonly value: Values;
  readonly m: Values;
  readonly v: Values;
}

interface Scalars {
  readonly learningRate: number;
  readonly clipScale: number;
  readonly time: number;
}

/** In place: like AdamW it needs the value, both moments, the gradient and every scalar of the step. */
export function updated({ value, m, v }: State, gradient: ArrayLike<number>, scalars: Scalars): void {
  const clip = Math.round(scalars.clipScale * PARTS) % P;
  const rate = Math.round(scalars.learningRate * PARTS) % P;
  for (let index = 0; index < value.length; index++) {
    const g = ((gradient[index] ?? 0) * clip) % P;
    const newM = (3 * (m[index] ?? 0) + g + scalars.time) % P;
    const newV = (5 * (v[index] ?? 0) + ((g * g) % P) + 7) % P;
    m[index] = newM;
    v[index] = newV;
    value[index] = ((value[index] ?? 0) + newM * rate + newV) % P;
  }
}

/** Of a run whose state goes as codes, which round: no such run is simulated so. */
export function noCodes(): never {
  throw new Error('whole numbers have no codes');
}
