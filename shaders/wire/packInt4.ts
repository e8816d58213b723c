/**
 * The stream as four-bit codes (TAH-Quant), before it is read back for the wire. x·gain goes in tiles of INT4_TILE
 * elements. Where the largest magnitude of a tile is more than twice the second, that element changes places with the
 * first one and the tile is multiplied with the Hadamard matrix / √32, which spreads it over all of them. A tile has its
 * least and its greatest value as halves, saturated, and the number of the level of each element, of 16 from the one to
 * the other. A tile with something that is not finite has the range NaN, so that a step whose numbers are broken does
 * not pass for a sound one.
 *
 * Activations go to the nearest level. Gradients are drawn: up as often as they lie near the upper level, so that what a
 * sum over micro-batches gets is right on average; the draw is a pure function of the key and the element's place.
 */
import { at, mixed } from '../../swarm/base.ts';
import {
  halfValue,
  INT4_LEVELS,
  INT4_ROTATED,
  INT4_TILE,
  INT4_TILE_WORDS,
  INT4_TILES,
  int4Places,
  packedWords,
  rotateInt4,
  swapWithFirst,
} from '../../swarm/wire.ts';
import { halfBits } from '../kernel/half.ts';
import { type Arrays, type Dims, kernel, type Source } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import mixedText from '../kernel/mixed.wgsl?raw';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import drawn from './drawn.wgsl?raw';
import halfWord from './halfWord.wgsl?raw';
import tile from './int4Tile.wgsl?raw';
import code from './packInt4.wgsl?raw';
import toNearest from './toNearest.wgsl?raw';

type Case = Dims<'n' | 'gain'>;
const CASES: readonly Case[] = [
  { n: 1, gain: 1 },
  { n: 259, gain: 1 },
  { n: 320, gain: 4 },
  { n: 4096, gain: 2 ** 12 },
];

const LEAST = 2 ** -100;
const MOST = 2 ** 127;
const NAN_RANGE = 0x7e00_7e00;

export const INT4_CONSTANTS = { TILES: INT4_TILES, TILE_WORDS: INT4_TILE_WORDS };

const sourceOf = (name: string, rounding: string): Source<'n' | 'gain'> =>
  laneSource(
    { name, code: halfWord + tile + rounding + code, width: laneWidth(1), constants: INT4_CONSTANTS },
    ({ n }) => Math.ceil(n / INT4_TILE),
  );

export const packInt4 = kernel({
  name: 'packInt4',
  tensors: [half(read('x')), readWrite('packed', 'u32')],
  dims: [u32('n'), f32('gain')],
  sizes: ({ n }) => ({ x: n, packed: packedWords('int4', n) }),
  source: (_family) => sourceOf('packInt4', toNearest),
  cpu: (arrays, dims) => packInt4Cpu(arrays, dims, () => 0.5),
  cases: CASES,
  fill: fillOdd,
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: 16 * n, bytes: 12.65 * n }),
});

export const packInt4Drawn = kernel({
  name: 'packInt4.drawn',
  tensors: [half(read('x')), read('key', 'u32'), readWrite('packed', 'u32')],
  dims: [u32('n'), f32('gain')],
  sizes: ({ n }) => ({ x: n, key: 1, packed: packedWords('int4', n) }),
  source: (_family) => sourceOf('packInt4.drawn', mixedText + drawn),
  cpu: ({ x, key, packed }, dims) => packInt4Cpu({ x, packed }, dims, (i) => (mixed(i ^ at(key, 0)) >>> 8) * 2 ** -24),
  cases: CASES,
  fill({ x, key }) {
    fillOdd({ x });
    key[0] = int4Key(3, 5);
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: 24 * n, bytes: 12.65 * n }),
});

/** By which the gradients of a step's micro-batch are drawn. */
export const int4Key = (step: number, microBatch: number): number => mixed(mixed(step) ^ microBatch);

/** Some tiles of the middle cases: zeros, one value alone, outliers, what is not finite. */
function fillOdd({ x }: Arrays<'x'>): void {
  if (x.length !== 259 && x.length !== 320) return;
  x.fill(0, 0, 32);
  x.fill(0.75, 32, 64);
  x[64] = 9;
  x[107] = -12;
  x[140] = 1e30;
  x[200] = Number.NaN;
}

function packInt4Cpu(
  { x, packed }: Arrays<'x' | 'packed'>,
  { n, gain }: Case,
  roundingAt: (i: number) => number,
): void {
  packed.fill(0);
  for (let number = 0; INT4_TILE * number < n; number++) {
    const first = INT4_TILE * number;
    const values = Array.from({ length: INT4_TILE }, (_, j) =>
      first + j < n ? Math.fround(at(x, first + j) * gain) : 0,
    );
    const magnitudes = values.map(Math.abs);
    const largest = Math.max(...magnitudes); // NaN where there is one
    const { rotations, words } = int4Places(number);
    if (largest < LEAST) continue;
    if (!(largest < MOST)) {
      packed[words] = NAN_RANGE;
      continue;
    }
    const place = magnitudes.indexOf(largest);
    if (largest > 2 * Math.max(...magnitudes.toSpliced(place, 1))) {
      packed[rotations] = (at(packed, rotations) | ((INT4_ROTATED | place) << (6 * (number % INT4_TILES)))) >>> 0;
      swapWithFirst(values, place);
      rotateInt4(values);
    }
    const [lowBits, highBits] = [halfBits(Math.min(...values) || 0), halfBits(Math.max(...values) || 0)];
    packed[words] = lowBits + highBits * 0x10000;
    const low = halfValue(lowBits);
    const range = Math.fround(halfValue(highBits) - low);
    if (!(range > 0)) continue;
    values.forEach((value, j) => {
      const level = levelOf(Math.fround(value - low), range, roundingAt(first + j));
      const word = words + 1 + (j >> 3);
      packed[word] = (at(packed, word) | (level << (4 * (j % 8)))) >>> 0;
    });
  }
}

/** The highest level that is not above the value, with `rounding` of a level added to it. */
function levelOf(above: number, range: number, rounding: number): number {
  const scaled = Math.fround(above * INT4_LEVELS);
  let level = 0;
  while (level < INT4_LEVELS && scaled >= Math.fround(Math.fround(level + 1 - rounding) * range)) level++;
  return level;
}
