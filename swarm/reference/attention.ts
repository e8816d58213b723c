/**
 * Attention of the CPU reference, a sequence's head at a time: all its scores are one product, of which a row keeps those
 * with the keys from its first one to its own.
 *
 * Letters: S rows of a sequence, T of them, its last ones, whose queries are asked; H heads of queries, K of keys and
 * values, D their width, E = H + 2K heads in a row of qkv: queries, keys and values side by side.
 */
import { at } from '../base.ts';
import { type Matrix, type Products, turned, type View } from './products.ts';

interface Attention {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
  /** What a score is multiplied by. */
  readonly scale: number;
  readonly sequences: number;
  /** S */
  readonly rows: number;
  /** T: all rows of a sequence where it is trained, one where text is made. */
  readonly asked: number;
  /** Of its sequence, the first row that this one sees; it never falls from a row to the next. */
  readonly firstKey: (sequence: number, row: number) => number;
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

/** What each head of each sequence reads and writes. */
function headsOf(
  { heads: H, keyValueHeads: K, headWidth: D, sequences, rows: S, asked: T, weights }: Attention,
  [qkv, y]: readonly [qkv: Matrix, y: Matrix],
) {
  const E = H + 2 * K;
  return Array.from({ length: sequences * H }, (_, index) => {
    const [sequence, head] = [Math.floor(index / H), index % H];
    const keyHead = H + Math.floor((head * K) / H);
    const part = (place: number, row: number): View => ({
      ...{ values: qkv, from: ((sequence * S + row) * E + place) * D, row: E * D },
    });
    return {
      queries: part(head, S - T),
      keys: part(keyHead, 0),
      values: part(keyHead + K, 0),
      result: { values: y, from: (sequence * T * H + head) * D, row: H * D },
      weights: { values: weights.subarray(index * T * S, (index + 1) * T * S), row: S },
    };
  });
}

/** The forward of an attention and, given where gradients go, its backward: what they read and write is found once. */
export function attentionOf(products: Products, attention: Attention) {
  const { rows: S, asked: T, heads: H, headWidth: D, scale, firstKey, qkv, y } = attention;
  const heads = headsOf(attention, [qkv, y]);
  return {
    /** y = softmax(scale·q·k)·v, over the rows that the query's row sees. */
    forward(): void {
      y.fill(0);
      for (const [index, { queries, keys, values, result, weights }] of heads.entries()) {
        weights.values.fill(0);
        products.add([T, S, D], queries, turned(keys), weights);
        softmax(weights.values, S, scale, (row) => firstKey(Math.floor(index / H), row));
        products.add([T, D, S], weights, values, result);
      }
    },
    /** With weights a: dvalue += a·dy, da = dy·value, dscore = a·(da − Σa·da), dquery and dkey from score = scale·q·k. */
    backward({ dqkv, dy, dweights }: AttentionGradients): () => void {
      const slopes = headsOf(attention, [dqkv, dy]);
      const dscores = { values: dweights, row: S };
      return () => {
        for (const [index, { queries, keys, values, weights }] of heads.entries()) {
          const dhead = at(slopes, index);
          products.add([S, D, T], turned(weights), dhead.result, dhead.values);
          dweights.fill(0);
          products.add([T, S, D], dhead.result, turned(values), dscores);
          softmaxBackward(weights.values, dweights, S, scale);
          products.add([T, D, S], dscores, keys, dhead.queries);
          products.add([S, D, T], turned(dscores), queries, dhead.keys);
        }
      };
    },
  };
}

/** In place, of each row's scores from its first key to its own, which the last row has last; 0 elsewhere. */
function softmax(scores_TS: Matrix, S: number, scale: number, firstKey: (row: number) => number): void {
  const T = scores_TS.length / S;
  for (let t = 0; t < T; t++) {
    const own = S - T + t;
    const [first, last] = [t * S + firstKey(own), t * S + own];
    let most = -Infinity;
    let sum = 0;
    for (let s = first; s <= last; s++) most = Math.max(most, scores_TS[s] ?? 0);
    for (let s = first; s <= last; s++) sum += scores_TS[s] = Math.exp(scale * ((scores_TS[s] ?? 0) - most));
    for (let s = first; s <= last; s++) scores_TS[s] = (scores_TS[s] ?? 0) / sum;
    scores_TS.fill(0, t * S, first);
    scores_TS.fill(0, last + 1, (t + 1) * S);
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
