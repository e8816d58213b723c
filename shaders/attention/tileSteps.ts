/**
 * The steps of attentionTiles.wgsl that are written out, since Tint unrolls no loop: scores of a strip, two lanes at a time
 * (128 multiply-adds), and sums over the 32 other rows, four at a time. The loops around them have constant bounds, so that a
 * driver may go on unrolling, and each index is a remainder and constants: its range is known and nothing bounds it. (With
 * all eight lanes written out llvmpipe took up to four times as long to compile a kernel: half a minute.)
 */
import { plus, range } from '../family/widths.ts';

/** Rows of a tile, and lanes of a strip; and, as in attentionTiles.wgsl, invocations along a side and a staged row. */
export const TILE = 32;
export const STRIP = 8;
const SIDE = STRIP;
const PITCH = STRIP + 1;
const LANES_AT_ONCE = 2;
const ROWS_AT_ONCE = 4;

/** The staged strips' part of the scores: a column for each other row, in it an entry for each own row. */
export function scoresText(chunks: number): string {
  const steps = Math.min(LANES_AT_ONCE, chunks);
  const four = (memory: string, first: string, k: number): string =>
    `Tile(${range(4)
      .map((i) => `${memory}[${plus(first, i * SIDE * PITCH + k)}]`)
      .join(', ')})`;
  const turns = Math.ceil(Math.min(STRIP, chunks) / steps);
  const lines = range(steps).map((k) => `    s = add_scores(s, ${four('own', 'a', k)}, ${four('other', 'b', k)});\n`);
  // Of the last strip only what is in it, to the next multiple of what is done at once: lanes past the width are zero.
  const last = Math.ceil((chunks % STRIP) / steps);
  const isShort = chunks > STRIP && last > 0 && last < turns;
  const ends = isShort ? `    if (turn >= ${last}u && strip == WHOLE) { break; }\n` : '';
  return `fn strip_scores(before: mat4x4f, at: Place, strip: u32) -> mat4x4f {
  var s = before;
  for (var turn = 0u; turn < ${turns}u; turn++) {
${ends}    let a = turn * ${steps}u + at.r % SIDE * PITCH;
    let b = turn * ${steps}u + at.c % SIDE * PITCH;
${lines.join('')}  }
  return s;
}
`;
}

/** Sums of the other rows' lane c of the staged strip, by weight: one column for each own row. */
export function weightedText(): string {
  const steps = range(ROWS_AT_ONCE).map((row) => {
    const [v, w] = [plus('v', row * PITCH), plus('w', row * PITCH)];
    return `    sum = add_outer(sum, other[${v}], weights[${w}]);\n`;
  });
  return `fn weighted(before: Tile, at: Place) -> Tile {
  var sum = before;
  for (var four = 0u; four < ${TILE / ROWS_AT_ONCE}u; four++) {
    let v = four * (${ROWS_AT_ONCE}u * PITCH) + at.c % SIDE;
    let w = four * (${ROWS_AT_ONCE}u * PITCH) + at.r % SIDE;
${steps.join('')}  }
  return sum;
}
`;
}
