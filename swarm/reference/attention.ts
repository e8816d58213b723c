/**
 * Causal attention of the CPU reference, a sequence's head at a time: all its scores are one product.
 *
 * Letters: S rows of a sequence, T of them, its last ones, whose queries are asked; H heads of queries, K of keys and
 * values, D their width, E = H + 2K heads in a row of qkv: queries, keys and values side by side.
 */
import { type Matrix, type Products, turned, type View } from './products.ts';

interface Attention {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
  readonly sequences: number;
  /** S */
  readonly rows: number;
  /** T: all rows of a sequence where it is trained, one where text is made. */
  readonly asked: number;
  /** S rows of E·D for each sequence. */
  readonly qkv: Matrix;
  /** T rows of H·D for each sequence. */
  readonly y: Matrix;
  /** T rows of S for each sequence and head: softmax of the scores, which the backward reads. */
  readonly weights: Matrix;
}

interface AttentionGradients {
  readonly dqkv: Matrix;
  readonly dy: Matrix;
  /** T rows of S, for the time of one head. */
  readonly dweights: Matrix;
}

/** What one head of one sequence reads and writes. */
function* headsOf({ heads: H, keyValueHeads: K, headWidth: D, sequences, rows: S, asked: T, weights }: Attention) {
  const E = H + 2 * K;
  for (let sequence = 0; sequence < sequences; sequence++)
    for (let head = 0; head < H; head++) {
      const keyHead = H + Math.floor((head * K) / H);
      const part = (values: Matrix, place: number, row: number): View => ({
        ...{ values, from: ((sequence * S + row) * E + place) * D, row: E * D },
      });
      const from = (sequence * H + head) * T * S;
      yield {
        queries: (values: Matrix) => part(values, head, S - T),
        keys: (values: Matrix) => part(values, keyHead, 0),
        values: (values: Matrix) => part(values, keyHead + K, 0),
        result: (values: Matrix): View => ({ values, from: (sequence * T * H + head) * D, row: H * D }),
        weights_TS: weights.subarray(from, from + T * S),
      };
    }
}

/** y = softmax(q·k/√D)·v, over the rows up to the query's own. */
export function attend(products: Products, attention: Attention): void {
  const { rows: S, asked: T, headWidth: D, qkv, y } = attention;
  y.fill(0);
  for (const { queries, keys, values, result, weights_TS } of headsOf(attention)) {
    weights_TS.fill(0);
    products.add([T, S, D], queries(qkv), turned(keys(qkv)), { values: weights_TS, row: S });
    causalSoftmax(weights_TS, S, 1 / Math.sqrt(D));
    products.add([T, D, S], { values: weights_TS, row: S }, values(qkv), result(y));
  }
}

/** With weights a: dvalue += a·dy, da = dy·value, dscore = a·(da − Σa·da), dquery and dkey from score = q·k/√D. */
export function attendBackward(
  products: Products,
  attention: Attention,
  { dqkv, dy, dweights: dweights_TS }: AttentionGradients,
): void {
  const { rows: S, asked: T, headWidth: D, qkv } = attention;
  const dscores = { values: dweights_TS, row: S };
  for (const { queries, keys, values, result, weights_TS } of headsOf(attention)) {
    products.add([S, D, T], turned({ values: weights_TS, row: S }), result(dy), values(dqkv));
    dweights_TS.fill(0);
    products.add([T, S, D], result(dy), turned(values(qkv)), dscores);
    softmaxBackward(weights_TS, dweights_TS, S, 1 / Math.sqrt(D));
    products.add([T, D, S], dscores, keys(qkv), queries(dqkv));
    products.add([S, D, T], turned(dscores), queries(qkv), keys(dqkv));
  }
}

/** In place, of each row's scores up to its own position, which the last row has last; 0 after it. */
function causalSoftmax(scores_TS: Matrix, S: number, scale: number): void {
  const T = scores_TS.length / S;
  for (let t = 0; t < T; t++) {
    const [first, last] = [t * S, t * S + (S - T) + t];
    let most = -Infinity;
    let sum = 0;
    for (let s = first; s <= last; s++) most = Math.max(most, scores_TS[s] ?? 0);
    for (let s = first; s <= last; s++) sum += scores_TS[s] = Math.exp(scale * ((scores_TS[s] ?? 0) - most));
    for (let s = first; s <= last; s++) scores_TS[s] = (scores_TS[s] ?? 0) / sum;
    scores_TS.fill(0, last + 1, first + S);
  }
}

/** Gradients of weights become those of scores before their scale, in place. */
function softmaxBackward(weights_TS: Matrix, d_TS: Matrix, S: number, scale: number): void {
  for (let first = 0; first < d_TS.length; first += S) {
    let mean = 0;
    for (let s = first; s < first + S; s++) mean += (weights_TS[s] ?? 0) * (d_TS[s] ?? 0);
    for (let s = first; s < first + S; s++) d_TS[s] = scale * (weights_TS[s] ?? 0) * ((d_TS[s] ?? 0) - mean);
  }
}
