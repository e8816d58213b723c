/**
 * The steps of attentionTiles.wgsl that are written out, since Tint unrolls no loop: scores of a strip, two lanes at a time
 * (128 multiply-adds), and sums over the 32 other rows, four at a time. The loops around them have constant bounds, so that a
 * driver may go on unrolling, and each index is a remainder and constants: its range is known and nothing bounds it. (With
 * all eight lanes written out llvmpipe took up to four times as long to compile a kernel: half a minute.) On an H100 all
 * eight lanes and all 32 rows written out take 0.84 of the forward's time, 0.88 of the queries' gradient's and 0.93 of the
 * keys' and values' (4 × 1,024 positions, 12 heads of 64, 2026-11-28).
 */
import { plus, range } from '../family/widths.ts';

/** Rows of a tile, and lanes of a strip; and, as in attentionTiles.wgsl, invocations along a side and a staged row. */
export const TILE = 32;
export const STRIP = 8;
const SIDE = STRIP;
const PITCH = STRIP + 1;

/** How much of a tile's steps stands in the text: two lanes and four rows, or all. */
export type WrittenOut = 'some' | 'all';
const LANES_AT_ONCE: Readonly<Record<WrittenOut, number>> = { some: 2, all: STRIP };
const ROWS_AT_ONCE: Readonly<Record<WrittenOut, number>> = { some: 4, all: TILE };

/** Of invocations, which share a tile: one, or two that take turns in a strip's lanes. */
export type Teams = 1 | 2;

/**
 * The staged strips' part of the scores: a column for each other row, in it an entry for each own row. Of two teams each
 * makes that of its own lanes, every other two.
 */
export function scoresText(chunks: number, teams: Teams, writtenOut: WrittenOut): string {
  // Of two teams each would have other lanes, and sums other bits.
  const steps = Math.min(LANES_AT_ONCE[teams === 1 ? writtenOut : 'some'], chunks);
  const four = (memory: string, first: string, k: number): string =>
    `Tile(${range(4)
      .map((i) => `${memory}[${plus(first, i * SIDE * PITCH + k)}]`)
      .join(', ')})`;
  const turns = Math.ceil(Math.min(STRIP, chunks) / (steps * teams));
  const lines = range(steps).map((k) => `    s = add_scores(s, ${four('own', 'a', k)}, ${four('other', 'b', k)});\n`);
  // Of the last strip only what is in it, to the next multiple of what is done at once: lanes past the width are zero.
  const last = Math.ceil((chunks % STRIP) / (steps * teams));
  const isShort = chunks > STRIP && last > 0 && last < turns;
  const ends = isShort ? `    if (turn >= ${last}u && strip == WHOLE) { break; }\n` : '';
  const turn = teams === 1 ? 'turn' : '(turn * 2u + team % 2u)';
  return `fn strip_scores(before: mat4x4f, at: Place, strip: u32${teams === 1 ? '' : ', team: u32'}) -> mat4x4f {
  var s = before;
  for (var turn = 0u; turn < ${turns}u; turn++) {
${ends}    let a = ${turn} * ${steps}u + at.r % SIDE * PITCH;
    let b = ${turn} * ${steps}u + at.c % SIDE * PITCH;
${lines.join('')}  }
  return s;
}
`;
}

/**
 * Sums of the other rows' lane c of the staged strip, by weight: one column for each own row. Of two teams the first has
 * staged its strip among the own rows.
 */
export function weightedText(teams: Teams, writtenOut: WrittenOut): string {
  const rows = ROWS_AT_ONCE[writtenOut];
  return weightedFrom('weighted', 'other', rows) + (teams === 1 ? '' : weightedFrom('weighted_own', 'own', rows));
}

function weightedFrom(name: string, strip: 'own' | 'other', rows: number): string {
  const steps = range(rows).map((row) => {
    const [v, w] = [plus('v', row * PITCH), plus('w', row * PITCH)];
    return `    sum = add_outer(sum, ${strip}[${v}], weights[${w}]);\n`;
  });
  return `fn ${name}(before: Tile, at: Place) -> Tile {
  var sum = before;
  for (var four = 0u; four < ${TILE / rows}u; four++) {
    let v = four * (${rows}u * PITCH) + at.c % SIDE;
    let w = four * (${rows}u * PITCH) + at.r % SIDE;
${steps.join('')}  }
  return sum;
}
`;
}
