/** The picture that a link to a run has where people share it: its donors as fish, what it is, and how its loss fell. */

import { crc32, deflateSync } from 'node:zlib';
import { arrayOf } from '../../swarm/base.ts';
import { type Place, placesFor } from '../../swarm/shoalPlaces.ts';
import { type Point, strokeText } from './strokeText.ts';

export const PREVIEW_WIDTH = 1_200;
export const PREVIEW_HEIGHT = 630;
const COLOURS = ['#0b1418', '#1f333c', '#5cc6d8', '#74d191', '#e6eef0', '#9fb3b9'];
const [FREE, DONOR, CURVE, TITLE, WORDS] = [1, 2, 3, 4, 5];
/** Pixels of a unit of the places, and where their middle is. */
const [SCALE, MIDDLE_X, MIDDLE_Y] = [1.7, 600, 165];
/** The curve's field, and half its line's width. */
const [LEFT, RIGHT, TOP, BOTTOM, HALF_LINE] = [90, 1_110, 480, 590, 4];
/** Where the two lines of words stand, and how large they may be: pixels of a unit. */
const [TITLE_Y, TITLE_UNIT, WORDS_Y, WORDS_UNIT] = [335, 8.5, 425, 4.5];
/** Half the width of a letter's line, in units. */
const HALF_STROKE = 0.42;
const CORNERS = 12;

/** A cubic Bézier curve, its first point left out. */
function bezier(points: readonly [Point, Point, Point, Point]): Point[] {
  return arrayOf(8, (at) => {
    const t = (at + 1) / 8;
    const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t ** 2 * (1 - t), t ** 3];
    const along = (axis: 0 | 1): number => points.reduce((sum, point, i) => sum + (weights[i] ?? 0) * point[axis], 0);
    return [along(0), along(1)];
  });
}

/** The outline of a fish (FISH in shoalPlaces.ts) as a polygon. */
const OUTLINE: readonly Point[] = [
  ...bezier([
    [10, 0],
    [5, -6],
    [-3, -6],
    [-7, -1],
  ]),
  [-10, -4],
  [-10, 4],
  [-7, 1],
  ...bezier([
    [-7, 1],
    [-3, 6],
    [5, 6],
    [10, 0],
  ]),
];

/** Row by row, between each two edges. */
function fill(pixels: Uint8Array, points: readonly Point[], colour: number): void {
  const rows = points.map(([, y]) => y);
  for (
    let row = Math.max(0, Math.floor(Math.min(...rows)));
    row <= Math.min(PREVIEW_HEIGHT - 1, Math.max(...rows));
    row++
  ) {
    const middle = row + 0.5;
    const crossings = points.flatMap(([x, y], at): number[] => {
      const [otherX, otherY] = points[(at + 1) % points.length] ?? [x, y];
      return y > middle === otherY > middle ? [] : [x + ((middle - y) / (otherY - y)) * (otherX - x)];
    });
    const sorted = crossings.toSorted((a, b) => a - b);
    for (let at = 0; at + 1 < sorted.length; at += 2)
      pixels.fill(
        colour,
        row * PREVIEW_WIDTH + Math.max(0, Math.round(sorted[at] ?? 0)),
        row * PREVIEW_WIDTH + Math.min(PREVIEW_WIDTH, Math.round(sorted[at + 1] ?? 0)),
      );
  }
}

const fish = ({ x, y, scale }: Place, grown: number): Point[] =>
  OUTLINE.map(([dx, dy]) => [MIDDLE_X + SCALE * (x + dx * scale * grown), MIDDLE_Y + SCALE * (y + dy * scale * grown)]);

/** In the middle, smaller where it would be too wide. */
function write(pixels: Uint8Array, text: string, y: number, most: number, colour: number): void {
  const { lines, width } = strokeText(text);
  const unit = Math.min(most, (RIGHT - LEFT) / Math.max(1, width));
  const left = MIDDLE_X - (width * unit) / 2;
  const half = HALF_STROKE * unit;
  for (const line of lines) {
    const points = line.map(([x, down]): Point => [left + x * unit, y + down * unit]);
    for (const [at, [x, row]] of points.entries()) {
      fill(
        pixels,
        arrayOf(CORNERS, (corner): Point => {
          const angle = (2 * Math.PI * corner) / CORNERS;
          return [x + half * Math.cos(angle), row + half * Math.sin(angle)];
        }),
        colour,
      );
      const [nextX, nextRow] = points[at + 1] ?? [x, row];
      const length = Math.hypot(nextX - x, nextRow - row);
      if (length === 0) continue;
      const [acrossX, acrossY] = [(-(nextRow - row) / length) * half, ((nextX - x) / length) * half];
      fill(
        pixels,
        [
          [x + acrossX, row + acrossY],
          [nextX + acrossX, nextRow + acrossY],
          [nextX - acrossX, nextRow - acrossY],
          [x - acrossX, row - acrossY],
        ],
        colour,
      );
    }
  }
}

interface Previewed {
  readonly donors: number;
  /** What it is, and how far, where that is everybody's. */
  readonly title: string;
  readonly words: string;
  /** Losses by step. */
  readonly curve: readonly (readonly [step: number, loss: number])[];
}

export function previewPicture({ donors, title, words, curve }: Previewed): Buffer {
  const pixels = new Uint8Array(PREVIEW_WIDTH * PREVIEW_HEIGHT);
  for (const [at, place] of placesFor(donors).entries())
    fill(pixels, fish(place, at < donors ? 1.5 : 1), at < donors ? DONOR : FREE);
  write(pixels, title, TITLE_Y, TITLE_UNIT, TITLE);
  write(pixels, words, WORDS_Y, WORDS_UNIT, WORDS);
  const [losses, first, last] = [curve.map(([, loss]) => loss), curve[0], curve.at(-1)];
  if (first && last && curve.length > 1) {
    const [low, high] = [Math.min(...losses), Math.max(...losses)];
    const points = curve.map(
      ([step, loss]): Point => [
        LEFT + ((step - first[0]) / Math.max(1, last[0] - first[0])) * (RIGHT - LEFT),
        TOP + ((high - loss) / Math.max(1e-9, high - low)) * (BOTTOM - TOP),
      ],
    );
    for (const [at, [x, y]] of points.entries()) {
      const [nextX, nextY] = points[at + 1] ?? [x, y];
      fill(
        pixels,
        [
          [x - 1, y - HALF_LINE],
          [nextX + 1, nextY - HALF_LINE],
          [nextX + 1, nextY + HALF_LINE],
          [x - 1, y + HALF_LINE],
        ],
        CURVE,
      );
    }
  }
  return png(pixels, PREVIEW_WIDTH, COLOURS);
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Of a header: 8 bits, colours by number, the only compression, filter and order that there are without interlacing. */
const [BITS, BY_NUMBER] = [8, 3];

function chunk(name: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

/** A PNG (ISO/IEC 15948): 8 bits a pixel, each the number of a colour. `pixels`: row by row; `colours` are `#rrggbb`. */
export function png(pixels: Uint8Array, width: number, colours: readonly string[]): Buffer {
  const height = pixels.length / width;
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([BITS, BY_NUMBER, 0, 0, 0], 8);
  const rows = Buffer.alloc((width + 1) * height);
  for (let row = 0; row < height; row++)
    rows.set(pixels.subarray(row * width, (row + 1) * width), row * (width + 1) + 1);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', head),
    chunk('PLTE', Buffer.from(colours.map((colour) => colour.slice(1)).join(''), 'hex')),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}
