import { expect, test } from 'vitest';
import { at, normal, seededRandom } from '../base.ts';
import { attentionOf } from './attention.ts';
import { plainProducts } from './products.ts';

// H heads of queries, K of keys and values, D their width, N rows.
const [H, K, D, N] = [4, 2, 3, 5];

/** The same keys and values, written once for each head of queries that reads them. */
function spread(qkv_NED: Float64Array): Float64Array {
  return Float64Array.from({ length: N * 3 * H * D }, (_, index) => {
    const [row, place, d] = [Math.floor(index / (3 * H * D)), Math.floor(index / D) % (3 * H), index % D];
    const [part, head] = [Math.floor(place / H), place % H];
    // Heads 0 and 1 read the first, heads 2 and 3 the second.
    const from = part === 0 ? head : H + (part - 1) * K + Math.floor(head / 2);
    return at(qkv_NED, (row * (H + 2 * K) + from) * D + d);
  });
}

/** What keys and values of so many heads come to, and their gradients. */
function attended(keyValueHeads: number, qkv: Float64Array, dy: Float64Array) {
  const zeros = (length: number) => new Float64Array(length);
  const y = zeros(N * H * D);
  const { forward, backward } = attentionOf(plainProducts, {
    ...{ heads: H, keyValueHeads, headWidth: D, scale: 0.3, sequences: 1, rows: N, asked: N },
    ...{ firstKey: (_: number, row: number) => Math.max(0, row - 2), qkv, y, weights: zeros(H * N * N) },
  });
  forward();
  const dqkv = zeros(qkv.length);
  backward({ dqkv, dy, dweights: zeros(N * N) })();
  return { y, dqkv };
}

test('heads that share keys and values are heads that each have a copy; a gradient is the sum over the copies', () => {
  const random = seededRandom(1);
  const draw = (length: number) => Float64Array.from({ length }, () => normal(random));
  const [qkv_NED, dy_NHD] = [draw(N * (H + 2 * K) * D), draw(N * H * D)];
  const { y, dqkv } = attended(K, qkv_NED, dy_NHD);
  const { y: yOfCopies, dqkv: dcopies } = attended(H, spread(qkv_NED), dy_NHD);
  expect(y).toEqual(yOfCopies);
  const gradient = (row: number, place: number, d: number) => at(dcopies, (row * 3 * H + place) * D + d);
  const expected = Array.from({ length: N }, (_, row) => [
    ...Array.from({ length: H * D }, (_, i) => gradient(row, Math.floor(i / D), i % D)),
    ...Array.from({ length: 2 * K * D }, (_, i) => {
      const copy = H + 2 * Math.floor(i / D);
      return gradient(row, copy, i % D) + gradient(row, copy + 1, i % D);
    }),
  ]).flat();
  for (const [index, value] of expected.entries()) expect(at(dqkv, index)).toBeCloseTo(value, 12);
});
