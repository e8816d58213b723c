import { expect, test } from 'vitest';
import { at, normal, seededRandom } from '../base.ts';
import { attendRow, attendRowBackward } from './attention.ts';

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

const shapeOf = (keyValueHeads: number) => ({ heads: H, keyValueHeads, headWidth: D });

test('[MO4] heads that share keys and values are heads that each have a copy; a gradient is the sum over the copies', () => {
  const random = seededRandom(1);
  const draw = (length: number) => Float64Array.from({ length }, () => normal(random));
  const [qkv_NED, dy_NHD] = [draw(N * (H + 2 * K) * D), draw(N * H * D)];
  const [y, yOfCopies] = [new Float64Array(N * H * D), new Float64Array(N * H * D)];
  const [dqkv, dcopies] = [new Float64Array(qkv_NED.length), new Float64Array(N * 3 * H * D)];
  const copies = spread(qkv_NED);
  for (let row = 0; row < N; row++) {
    attendRow(shapeOf(K), qkv_NED, [0, row], y, row * H * D);
    attendRow(shapeOf(H), copies, [0, row], yOfCopies, row * H * D);
    attendRowBackward(shapeOf(K), { qkv_NED, dqkv_NED: dqkv, dy_NHD }, [0, row]);
    attendRowBackward(shapeOf(H), { qkv_NED: copies, dqkv_NED: dcopies, dy_NHD }, [0, row]);
  }
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
