/**
 * Causal attention of the reference trainer, row by row: a row's query against the keys of its sample up to itself. The
 * trainer runs all rows of a sample, the text generator one row against those it has kept.
 */

/** How the columns of qkv [N, (H+2K)·D] are split: queries, keys, values side by side, heads contiguous in each. */
interface Heads {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headWidth: number;
}

/** Rows of one sample's queries, keys and values, and which part of them one head of queries reads. */
interface Head {
  readonly qkv: Float64Array;
  /** Elements of a row of qkv. */
  readonly stride: number;
  readonly query: number;
  readonly key: number;
  readonly value: number;
  readonly headWidth: number;
}

function headOf(qkv: Float64Array, { heads, keyValueHeads, headWidth }: Heads, head: number): Head {
  const keyHead = heads + Math.floor((head * keyValueHeads) / heads);
  return {
    qkv,
    stride: (heads + 2 * keyValueHeads) * headWidth,
    query: head * headWidth,
    key: keyHead * headWidth,
    value: (keyHead + keyValueHeads) * headWidth,
    headWidth,
  };
}

/** softmax of q·k/√headWidth over rows `first` to `row` (causal: no later ones). */
function attentionWeights({ qkv, stride, query, key, headWidth }: Head, first: number, row: number): Float64Array {
  const weights = new Float64Array(row - first + 1);
  for (let j = 0; j < weights.length; j++) {
    let dot = 0;
    for (let d = 0; d < headWidth; d++) dot += qkv[row * stride + query + d] * qkv[(first + j) * stride + key + d];
    weights[j] = dot / Math.sqrt(headWidth);
  }
  return softmax(weights);
}

export function softmax(values: Float64Array): Float64Array {
  let [most, sum] = [-Infinity, 0];
  for (const value of values) most = Math.max(most, value);
  for (let i = 0; i < values.length; i++) sum += values[i] = Math.exp(values[i] - most);
  for (let i = 0; i < values.length; i++) values[i] /= sum;
  return values;
}

/** What row `row` of a sample that starts at row `first` attends to, written to `y` at `offset`. */
export function attendRow(
  shape: Heads,
  qkv: Float64Array,
  [first, row]: readonly [first: number, row: number],
  y: Float64Array,
  offset: number,
): void {
  for (let h = 0; h < shape.heads; h++) {
    const head = headOf(qkv, shape, h);
    const weights = attentionWeights(head, first, row);
    for (let j = 0; j < weights.length; j++)
      for (let d = 0; d < shape.headWidth; d++)
        y[offset + head.query + d] += weights[j] * qkv[(first + j) * head.stride + head.value + d];
  }
}

/** With weights a: dvalue += a·dy, da = dy·value, dscore = a·(da − Σa·da), dquery and dkey from score = q·k/√headWidth. */
export function attendRowBackward(
  shape: Heads,
  { qkv, dqkv, dy }: { readonly qkv: Float64Array; readonly dqkv: Float64Array; readonly dy: Float64Array },
  [first, row]: readonly [first: number, row: number],
): void {
  const { heads, headWidth } = shape;
  for (let h = 0; h < heads; h++) {
    const head = headOf(qkv, shape, h);
    const weights = attentionWeights(head, first, row);
    const dweights = new Float64Array(weights.length);
    let mean = 0;
    for (let j = 0; j < weights.length; j++) {
      const value = (first + j) * head.stride + head.value;
      for (let d = 0; d < headWidth; d++) {
        const g = dy[row * heads * headWidth + head.query + d];
        dweights[j] += g * qkv[value + d];
        dqkv[value + d] += g * weights[j];
      }
      mean += weights[j] * dweights[j];
    }
    for (let j = 0; j < weights.length; j++) {
      const dscore = (weights[j] * (dweights[j] - mean)) / Math.sqrt(headWidth);
      const [query, key] = [row * head.stride + head.query, (first + j) * head.stride + head.key];
      for (let d = 0; d < headWidth; d++) {
        dqkv[query + d] += dscore * qkv[key + d];
        dqkv[key + d] += dscore * qkv[query + d];
      }
    }
  }
}
