/**
 * Causal attention of the CPU trainer, a sample's head at a time: all its scores are one product.
 *
 * Letters: T positions of a sample, H heads, D their width; a row of qkv has the queries of all heads, their keys, their
 * values. The formulas are those of swarm/reference/attention.ts.
 */
import type { Products, View } from './products.ts';

interface Attention {
  readonly products: Products;
  readonly samples: number;
  readonly positions: number;
  readonly heads: number;
  readonly headWidth: number;
  /** [N, 3·H·D] */
  readonly qkv: { readonly y: Float32Array; readonly dy: Float32Array };
  /** [N, H·D] */
  readonly output: { readonly y: Float32Array; readonly dy: Float32Array };
  /** [samples, H, T, T], for the backward. */
  readonly weights: Float32Array;
  /** [T, T] and [D, T], for the time of one head. */
  readonly square: Float32Array;
  readonly turned: Float32Array;
}

/** What one head of one sample reads and writes. */
function* headsOf({ samples, positions: T, heads, headWidth: D, weights }: Attention) {
  const width = heads * D;
  for (let sample = 0; sample < samples; sample++)
    for (let head = 0; head < heads; head++) {
      const query = sample * T * 3 * width + head * D;
      const from = (sample * heads + head) * T * T;
      yield {
        part: (values: Float32Array, kind: 0 | 1 | 2): View => ({ values, from: query + kind * width, row: 3 * width }),
        result: (values: Float32Array): View => ({ values, from: sample * T * width + head * D, row: width }),
        weights_TT: weights.subarray(from, from + T * T),
      };
    }
}

const [QUERY, KEY, VALUE] = [0, 1, 2] as const;
const whole = (values: Float32Array, row: number): View => ({ values, row });
/** A square matrix, turned. */
const turnedView = (values: Float32Array, T: number): View => ({ values, row: 1, column: T });

export function attend(attention: Attention): void {
  const { products, positions: T, headWidth: D, qkv, output, turned } = attention;
  output.y.fill(0);
  for (const { part, result, weights_TT } of headsOf(attention)) {
    weights_TT.fill(0);
    turn(part(qkv.y, KEY), T, D, turned);
    products.add([T, T, D], part(qkv.y, QUERY), whole(turned, T), whole(weights_TT, T));
    causalSoftmax(weights_TT, T, 1 / Math.sqrt(D));
    products.add([T, D, T], whole(weights_TT, T), part(qkv.y, VALUE), result(output.y));
  }
}

/** With weights a: dvalue += a·dy, da = dy·value, dscore = a·(da − Σa·da), dquery and dkey from score = q·k/√D. */
export function attendBackward(attention: Attention): void {
  const { products, positions: T, headWidth: D, qkv, output, square, turned } = attention;
  for (const { part, result, weights_TT } of headsOf(attention)) {
    const dy = result(output.dy);
    products.add([T, D, T], turnedView(weights_TT, T), dy, part(qkv.dy, VALUE));
    square.fill(0);
    turn(part(qkv.y, VALUE), T, D, turned);
    products.add([T, T, D], dy, whole(turned, T), whole(square, T));
    softmaxBackward(weights_TT, square, T, 1 / Math.sqrt(D));
    products.add([T, D, T], whole(square, T), part(qkv.y, KEY), part(qkv.dy, QUERY));
    products.add([T, D, T], turnedView(square, T), part(qkv.y, QUERY), part(qkv.dy, KEY));
  }
}

/** Rows [T, D] of a part of qkv, as [D, T]. */
function turn({ values, from = 0, row }: View, T: number, D: number, into: Float32Array): void {
  for (let t = 0; t < T; t++) for (let d = 0; d < D; d++) into[d * T + t] = values[from + t * row + d] ?? 0;
}

/** In place, of each row's scores up to its own position; 0 after it. */
function causalSoftmax(scores_TT: Float32Array, T: number, scale: number): void {
  for (let t = 0; t < T; t++) {
    const [first, last] = [t * T, t * T + t];
    let most = -Infinity;
    let sum = 0;
    for (let s = first; s <= last; s++) most = Math.max(most, scores_TT[s] ?? 0);
    for (let s = first; s <= last; s++) {
      const power = Math.exp(scale * ((scores_TT[s] ?? 0) - most));
      scores_TT[s] = power;
      sum += power;
    }
    for (let s = first; s <= last; s++) scores_TT[s] = (scores_TT[s] ?? 0) / sum;
    scores_TT.fill(0, last + 1, first + T);
  }
}

/** Gradients of weights become those of scores, in place. */
function softmaxBackward(weights_TT: Float32Array, d_TT: Float32Array, T: number, scale: number): void {
  for (let first = 0; first < T * T; first += T) {
    let mean = 0;
    for (let s = first; s < first + T; s++) mean += (weights_TT[s] ?? 0) * (d_TT[s] ?? 0);
    for (let s = first; s < first + T; s++) d_TT[s] = scale * (weights_TT[s] ?? 0) * ((d_TT[s] ?? 0) - mean);
  }
}
