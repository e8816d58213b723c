/**
 * Words as lines, for pictures: a server has no fonts. Each letter is a few broken lines on a grid of its own: capitals stand
 * from 0 to 6, small letters from 2 to 6, tails reach to 8. A point is two digits, x and y; a space goes on, a comma lifts the pen.
 */
export type Point = readonly [x: number, y: number];

const ROUND = '12 32 43 45 36 16 05 03 12';
const LETTERS: Readonly<Record<string, string>> = {
  a: '43 32 12 03 05 16 36 45,42 46',
  b: '00 06,03 12 32 43 45 36 16 05',
  c: '43 32 12 03 05 16 36 45',
  d: '40 46,43 32 12 03 05 16 36 45',
  e: '04 44 43 32 12 03 05 16 36 45',
  f: '30 20 11 16,02 32',
  g: '42 47 38 18 07,43 32 12 03 05 16 36 45',
  h: '00 06,03 12 32 43 46',
  i: '02 06,00 00',
  j: '22 27 18 08,20 20',
  k: '00 06,42 04,14 46',
  l: '00 05 16',
  m: '02 06,03 12 22 33 36,33 42 52 63 66',
  n: '02 06,03 12 32 43 46',
  o: ROUND,
  p: '02 08,03 12 32 43 45 36 16 05',
  q: '42 48,43 32 12 03 05 16 36 45',
  r: '02 06,03 12 32',
  s: '43 32 12 03 14 34 45 36 16 05',
  t: '10 15 26 36,02 32',
  u: '02 05 16 36 45,42 46',
  v: '02 26 42',
  w: '02 16 33 56 62',
  x: '02 46,42 06',
  y: '02 26,42 18 08',
  z: '02 42 06 46',
  A: '06 20 46,14 34',
  B: '00 06 36 45 44 33 03,00 30 41 42 33',
  C: '41 30 10 01 05 16 36 45',
  D: '00 06 26 44 42 20 00',
  E: '40 00 06 46,03 33',
  F: '40 00 06,03 33',
  G: '41 30 10 01 05 16 36 45 43 23',
  H: '00 06,40 46,03 43',
  I: '00 06',
  J: '40 45 36 16 05',
  K: '00 06,40 03 46',
  L: '00 06 46',
  M: '06 00 33 60 66',
  N: '06 00 46 40',
  O: '10 30 41 45 36 16 05 01 10',
  P: '06 00 30 41 42 33 03',
  Q: '10 30 41 45 36 16 05 01 10,34 46',
  R: '06 00 30 41 42 33 03,23 46',
  S: '41 30 10 01 02 13 33 44 45 36 16 05',
  T: '00 40,20 26',
  U: '00 05 16 36 45 40',
  V: '00 26 40',
  W: '00 16 32 56 60',
  X: '00 46,40 06',
  Y: '00 23 40,23 26',
  Z: '00 40 06 46',
  0: '10 30 41 45 36 16 05 01 10,14 32',
  1: '01 20 26',
  2: '01 10 30 41 42 06 46',
  3: '01 10 30 41 42 33 13,33 44 45 36 16 05',
  4: '36 30 04 44',
  5: '40 00 03 33 44 45 36 06',
  6: '40 10 01 05 16 36 45 44 33 03',
  7: '00 40 16',
  8: '13 02 01 10 30 41 42 33 13 04 05 16 36 45 44 33',
  9: '06 36 45 41 30 10 01 02 13 43',
  '.': '06 06',
  ',': '06 07',
  ':': '03 03,06 06',
  "'": '00 01',
  '-': '04 34',
  _: '06 46',
  '/': '06 40',
  '(': '10 02 04 16',
  ')': '00 12 14 06',
  '·': '04 04',
};
const SPACE = 3;
/** Between two letters. */
const GAP = 1.6;

interface StrokeText {
  readonly lines: readonly (readonly Point[])[];
  readonly width: number;
}

/** In units of the grid, from its left end on. What has no letter here is a space. */
export function strokeText(text: string): StrokeText {
  const lines: Point[][] = [];
  let x = 0;
  for (const letter of text) {
    const strokes = (LETTERS[letter] ?? '').split(',').filter(Boolean);
    const left = x;
    const points = strokes.map((stroke) => stroke.split(' ').map((at): Point => [left + Number(at[0]), Number(at[1])]));
    lines.push(...points);
    const right = points.flat().reduce((most, [at]) => Math.max(most, at), left + (strokes.length > 0 ? 0 : SPACE));
    x = right + GAP;
  }
  return { lines, width: Math.max(0, x - GAP) };
}
