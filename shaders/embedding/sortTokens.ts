/**
 * The order in which the token gradient is summed. A GPU has no float atomics, so each token id that occurs is one
 * segment of a list of row numbers sorted by id: one invocation then adds a segment's rows in a fixed order, and the
 * result is the same to the last bit every time. Sizes depend only on N, so buffers and dispatches stay as they are.
 */
import { at } from '../../swarm/base.ts';

/** Elements of `segments` for N rows: the number of segments, then (id, from, to) for each. */
export const segmentsLength = (N: number): number => 1 + 3 * N;

interface SortedTokens {
  /** Row numbers, sorted by their id; rows of one id stay in ascending order. */
  readonly order: Uint32Array<ArrayBuffer>;
  /** `segments[0]` segments; segment s is at 1 + 3s: id, from, to (a range of `order`). The rest is zero. */
  readonly segments: Uint32Array<ArrayBuffer>;
  readonly count: number;
}

/** `padding`: the id whose row gets no gradient, so that it is no segment. */
export function sortTokens(ids: ArrayLike<number>, padding: number | null = null): SortedTokens {
  const order = Uint32Array.from({ length: ids.length }, (_, row) => row);
  order.sort((a, b) => at(ids, a) - at(ids, b) || a - b);
  const segments = new Uint32Array(segmentsLength(ids.length));
  let count = 0;
  for (let from = 0, to = 0; from < order.length; from = to) {
    const id = at(ids, at(order, from));
    while (to < order.length && ids[at(order, to)] === id) to++;
    if (id === padding) continue;
    segments.set([id, from, to], 1 + 3 * count);
    count++;
  }
  segments[0] = count;
  return { order, segments, count };
}
