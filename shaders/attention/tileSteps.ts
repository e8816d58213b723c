/**
 * The steps of attentionTiles.wgsl that are written out, since Tint unrolls no loop: scores of a strip, lane by lane, and
 * sums over the 32 other rows. Each index is a remainder and a constant, so that its range is known and nothing bounds it.
 */
import { plus, range } from '../family/widths.ts';

/** Rows of a tile, and lanes of a strip; and, as in attentionTiles.wgsl, invocations along a side and a staged row. */
export const TILE = 32;
export const STRIP = 8;
const SIDE = STRIP;
const PITCH = STRIP + 1;

/** The staged strips' part of the scores: a column for each other row, in it an entry for each own row. */
export function scoresText(name: string, lanes: number): string {
  const four = (memory: string, first: string, k: number): string =>
    `Tile(${range(4)
      .map((i) => `${memory}[${plus(first, i * SIDE * PITCH + k)}]`)
      .join(', ')})`;
  const steps = range(lanes).map((k) => `  s = add_scores(s, ${four('own', 'a', k)}, ${four('other', 'b', k)});\n`);
  return `fn ${name}(before: mat4x4f, at: Place) -> mat4x4f {
  let a = at.r % SIDE * PITCH;
  let b = at.c % SIDE * PITCH;
  var s = before;
${steps.join('')}  return s;
}
`;
}

/** Sums of the other rows' lane c of the staged strip, by weight: one column for each own row. Eight other rows at a time. */
export function weightedText(): string {
  const steps = range(SIDE).map((row) => {
    const [v, w] = [plus('v', row * PITCH), plus('w', row * PITCH)];
    return `    sum = add_outer(sum, other[${v}], weights[${w}]);\n`;
  });
  return `fn weighted(before: Tile, at: Place) -> Tile {
  var sum = before;
  for (var eight = 0u; eight < ${TILE / SIDE}u; eight++) {
    let v = eight * (SIDE * PITCH) + at.c % SIDE;
    let w = eight * (SIDE * PITCH) + at.r % SIDE;
${steps.join('')}  }
  return sum;
}
`;
}
