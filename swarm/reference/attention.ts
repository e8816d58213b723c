/**
 * Causal attention of the reference trainer, row by row: a row's query against the keys of its sample up to itself. The
 * trainer runs all rows of a sample, the text generator one row against those it has kept.
 *
 * Letters: N rows, H heads of queries, K heads of keys and values, D their width, E = H + 2K heads in a row of qkv:
 * queries, keys and values side by side; S rows from the sample's first to the query's own.
 */
import { addScaled, dot, type Matrix, read } from './matrix.ts';

interface Heads {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
}

/** Rows of one sample's queries, keys and values, and which part of them one head of queries reads. */
interface Head {
  readonly qkv_NED: Matrix;
  /** E·D, elements of a row. */
  readonly stride: number;
  readonly query: number;
  readonly key: number;
  readonly value: number;
  /** D. */
  readonly headWidth: number;
}

function headOf(qkv_NED: Matrix, { heads, keyValueHeads, headWidth }: Heads, head: number): Head {
  const keyHead = heads + Math.floor((head * keyValueHeads) / heads);
  return {
    qkv_NED,
    stride: (heads + 2 * keyValueHeads) * headWidth,
    query: head * headWidth,
    key: keyHead * headWidth,
    value: (keyHead + keyValueHeads) * headWidth,
    headWidth,
  };
}

/** softmax of q·k/√D over rows `first` to `row` (causal: no later ones). */
function attentionWeights({ qkv_NED, stride, query, key, headWidth }: Head, first: number, row: number): Matrix {
  const weights_S = new Float64Array(row - first + 1);
  for (let s = 0; s < weights_S.length; s++) {
    const [q_D, k_D] = [
      { values: qkv_NED, from: row * stride + query },
      { values: qkv_NED, from: (first + s) * stride + key },
    ];
    weights_S[s] = dot(q_D, k_D, headWidth) / Math.sqrt(headWidth);
  }
  return softmax(weights_S);
}

/** Of one row, in place. */
function softmax(values: Matrix): Matrix {
  let [most, sum] = [-Infinity, 0];
  for (const value of values) most = Math.max(most, value);
  for (const [i, value] of values.entries()) sum += values[i] = Math.exp(value - most);
  for (const [i, value] of values.entries()) values[i] = value / sum;
  return values;
}

/** What row `row` of a sample that starts at row `first` attends to, written to `y` from `offset` on. */
export function attendRow(
  shape: Heads,
  qkv_NED: Matrix,
  [first, row]: readonly [first: number, row: number],
  y: Matrix,
  offset: number,
): void {
  for (let h = 0; h < shape.heads; h++) {
    const head = headOf(qkv_NED, shape, h);
    const y_D = { values: y, from: offset + head.query };
    for (const [s, weight] of attentionWeights(head, first, row).entries())
      addScaled(y_D, weight, { values: qkv_NED, from: (first + s) * head.stride + head.value }, shape.headWidth);
  }
}

/** With weights a: dvalue += a·dy, da = dy·value, dscore = a·(da − Σa·da), dquery and dkey from score = q·k/√D. */
export function attendRowBackward(
  shape: Heads,
  { qkv_NED, dqkv_NED, dy_NHD }: Readonly<Record<'qkv_NED' | 'dqkv_NED' | 'dy_NHD', Matrix>>,
  [first, row]: readonly [first: number, row: number],
): void {
  const { heads, headWidth: D } = shape;
  const x = (from: number) => ({ values: qkv_NED, from });
  const dx = (from: number) => ({ values: dqkv_NED, from });
  for (let h = 0; h < heads; h++) {
    const head = headOf(qkv_NED, shape, h);
    const dy_D = { values: dy_NHD, from: row * heads * D + head.query };
    const weights_S = attentionWeights(head, first, row);
    const dweights_S = new Float64Array(weights_S.length);
    let mean = 0;
    for (const [s, weight] of weights_S.entries()) {
      const value = (first + s) * head.stride + head.value;
      const dweight = dot(dy_D, x(value), D);
      dweights_S[s] = dweight;
      addScaled(dx(value), weight, dy_D, D);
      mean += weight * dweight;
    }
    for (const [s, weight] of weights_S.entries()) {
      const dscore = (weight * (read(dweights_S, s) - mean)) / Math.sqrt(D);
      const [query, key] = [row * head.stride + head.query, (first + s) * head.stride + head.key];
      addScaled(dx(query), dscore, x(key), D);
      addScaled(dx(key), dscore, x(query), D);
    }
  }
}
