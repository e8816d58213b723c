/**
 * Which keys a row sees: those from its first key on, up to its own. One table of first keys, a number for each row, says all
 * there is to say: a causal mask (0 everywhere), a sliding window of w positions (r − w + 1), examples that share a window of
 * rows (each example's first row), and padding, which sees itself alone. First keys never fall from a row to the next one of
 * its window, so a kernel skips whole tiles of keys that no row of a tile sees.
 */
import { below } from '../../swarm/base.ts';

/** Rows r of windows of T: the later of their example's first row and r − width + 1. `width` null: all of the example. */
export function firstKeys(
  rows: number,
  T: number,
  firstRows: Uint32Array | null,
  width: number | null,
): Uint32Array<ArrayBuffer> {
  const keys = firstRows ? Uint32Array.from(firstRows) : new Uint32Array(rows);
  if (width !== null) for (let n = 0; n < rows; n++) keys[n] = Math.max(keys[n] ?? 0, (n % T) - width + 1);
  return keys;
}

/** First rows at random: examples of up to `longest` rows in windows of T, and padding at the end of some. */
export function drawFirstRows(
  rows: number,
  T: number,
  longest: number,
  random: () => number,
): Uint32Array<ArrayBuffer> {
  const firstRows = new Uint32Array(rows);
  for (let start = 0; start < rows; start += T) {
    const padding = below(random, Math.min(T, longest));
    for (let r = 0; r < T; ) {
      const length = r >= T - padding ? 1 : Math.min(1 + below(random, longest), T - padding - r);
      firstRows.fill(r, start + r, start + r + length);
      r += length;
    }
  }
  return firstRows;
}
