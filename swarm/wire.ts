/**
 * How the stream is written on its way from peer to peer: the activations that go to the next stage, the gradients that
 * come back. The run file's `precision.wire` decides for the whole run, or with `auto` the plan for each link
 * (plan/planLink.ts). Gradient sums and values travel as float32, or as int8 where `precision.state` says so
 * (plan/codedState.ts); moments always as float32. A packed tensor is a whole number of 32-bit words, whatever its encoding,
 * so it goes through buffers, readbacks and frames as floats do. Rules WI in SPEC.md.
 *
 * f16: two halves a word. int8: blocks of INT8_BLOCK elements, each a float32 scale and four codes a word. int4: groups of
 * INT4_TILES tiles of INT4_TILE elements; a word says how each of them is rotated, then each has its range, two halves a
 * word, and eight codes a word.
 */
import { assertNever } from './base.ts';

export const WIRE_ENCODINGS = ['f32', 'f16', 'int8', 'int4'] as const;
export type WireEncoding = (typeof WIRE_ENCODINGS)[number];

/** What a run file may ask for: one encoding for all links, or the plan's choice for each. */
export const RUN_WIRES = [...WIRE_ENCODINGS, 'auto'] as const;
export type RunWire = (typeof RUN_WIRES)[number];

/** What a run file may ask for gradient sums and values, between those who hold a block and those who keep it. */
export const STATE_WIRES = ['f32', 'int8'] as const;
export type StateWire = (typeof STATE_WIRES)[number];
/** Of these all but floats. */
export type CodedState = Exclude<StateWire, 'f32'>;

/** Of a link of which the plan says nothing. */
export const plainWire = (wire: RunWire): WireEncoding => (wire === 'auto' ? 'f32' : wire);

/** With which a plan is sought for, before its links are looked at one by one. */
export const tightestWire = (wire: RunWire): WireEncoding => (wire === 'auto' ? 'int4' : wire);

/** Elements that share a scale: 17 words for 64 elements are 0.27 of float32. */
export const INT8_BLOCK = 64;
/** Words of a whole block: its scale, and its codes. */
export const INT8_BLOCK_WORDS = 1 + INT8_BLOCK / 4;

/** Elements that share a range and a rotation. */
export const INT4_TILE = 32;
/** Words of a tile: its range, and its codes. */
export const INT4_TILE_WORDS = 1 + INT4_TILE / 8;
/** Tiles whose rotations, six bits each, share a word: 26 words for 160 elements are 0.16 of float32. */
export const INT4_TILES = 5;
/** Between the least and the greatest value of a tile. */
export const INT4_LEVELS = 15;
/** Stands with the place that was swapped, where a tile is rotated. */
export const INT4_ROTATED = 32;
export const LARGEST_HALF = 65_504;
const INT4_GROUP_WORDS = 1 + INT4_TILES * INT4_TILE_WORDS;

export function packedWords(encoding: WireEncoding, elements: number): number {
  switch (encoding) {
    case 'f32':
      return elements;
    case 'f16':
      return Math.ceil(elements / 2);
    case 'int8':
      return Math.ceil(elements / INT8_BLOCK) + Math.ceil(elements / 4);
    case 'int4': {
      const tiles = Math.ceil(elements / INT4_TILE);
      return Math.ceil(tiles / INT4_TILES) + tiles * INT4_TILE_WORDS;
    }
    default:
      return assertNever(encoding);
  }
}

export const packedBytes = (encoding: WireEncoding, elements: number): number => 4 * packedWords(encoding, elements);

/**
 * The scale of an int8 block, the first `length` elements: the least number of three bits of mantissa of which 127 are as large as the largest
 * magnitude. 0 where the block is as good as zero; NaN where it has something that is not finite.
 */
export function int8Scale(block: ArrayLike<number>, length = block.length): number {
  let largest = 0;
  for (let i = 0; i < length; i++) largest = Math.max(largest, Math.abs(block[i] ?? 0)); // NaN where there is one
  if (!(largest < 2 ** 127)) return Number.NaN;
  if (largest < 2 ** -100) return 0;
  const least = largest / 127;
  const step = 2 ** (Math.floor(Math.log2(least)) - 3);
  return Math.ceil(least / step) * step;
}

/** An element's code, from -127 to 127. */
export const int8Code = (value: number, scale: number): number =>
  scale > 0 ? roundToEven(Math.fround(value * Math.fround(1 / scale))) : 0;

/** Blocks of codes behind their scales; `scaleOf`: of the values of a block. */
export function packInt8(
  values: Float32Array,
  into: Uint32Array,
  scaleOf: (block: Float32Array) => number = exactScale,
): void {
  const scales = new Float32Array(into.buffer, into.byteOffset, into.length);
  const codes = new Int8Array(into.buffer, into.byteOffset, into.byteLength);
  for (let start = 0, word = 0; start < values.length; start += INT8_BLOCK, word += INT8_BLOCK_WORDS) {
    const own = values.subarray(start, start + INT8_BLOCK);
    const scale = scaleOf(own);
    scales[word] = scale;
    for (const [i, value] of own.entries()) codes[4 * (word + 1) + i] = int8Code(value, scale);
  }
}

/**
 * The scale of a block whose values were unpacked from codes: the one that they are whole multiples of, which may be one of
 * the next above int8Scale's, since the largest code was rounded.
 */
function exactScale(block: Float32Array): number {
  const least = int8Scale(block);
  let scale = least;
  for (let tries = 0; tries < 3 && scale > 0; tries++) {
    if (block.every((value) => Number.isInteger(value / scale))) return scale;
    scale = int8Scale([scale * 127 * (1 + 2 ** -20)]);
  }
  return least;
}

/** Values that were unpacked, packed again to the same bits. */
export function packedInt8(values: ArrayLike<number>): Float32Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(values.length / INT8_BLOCK) * INT8_BLOCK_WORDS);
  packInt8(Float32Array.from(values), words);
  return new Float32Array(words.buffer);
}

/** The floats of so many packed elements: each a product of eleven bits, hence exact. */
export function unpackedInt8(words: Float32Array, elements: number): Float32Array<ArrayBuffer> {
  const codes = new Int8Array(words.buffer, words.byteOffset, words.byteLength);
  const values = new Float32Array(elements);
  for (let start = 0, word = 0; start < elements; start += INT8_BLOCK, word += INT8_BLOCK_WORDS) {
    const scale = words[word] ?? 0;
    const first = 4 * (word + 1) - start;
    for (let i = start; i < Math.min(start + INT8_BLOCK, elements); i++) values[i] = scale * (codes[first + i] ?? 0);
  }
  return values;
}

/** The number that a half's bits stand for. */
export function halfValue(bits: number): number {
  const [exponent, mantissa] = [(bits >>> 10) & 31, bits & 1023];
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * mantissa * 2 ** -24 : sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

/** The same of halves. */
export function unpackedF16(words: Float32Array, elements: number): Float32Array<ArrayBuffer> {
  const halves = new Uint16Array(words.buffer, words.byteOffset, 2 * words.length);
  return Float32Array.from({ length: elements }, (_, i) => halfValue(halves[i] ?? 0));
}

/** The same of four-bit codes, as shaders/wire/packInt4.ts says. */
export function unpackedInt4(floats: Float32Array, elements: number): Float32Array<ArrayBuffer> {
  const packed = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
  const word = (index: number): number => packed[index] ?? 0;
  const values = new Float32Array(elements);
  for (let tile = 0; INT4_TILE * tile < elements; tile++) {
    const { rotations, words } = int4Places(tile);
    const [low, high] = [halfValue(word(words) & 0xffff), halfValue(word(words) >>> 16)];
    const own = Array.from({ length: INT4_TILE }, (_, j) => {
      const level = (word(words + 1 + (j >> 3)) >>> (4 * (j % 8))) & 15;
      return low + (level * (high - low)) / INT4_LEVELS;
    });
    const rotation = (word(rotations) >>> (6 * (tile % INT4_TILES))) & 63;
    if (rotation >= INT4_ROTATED) {
      rotateInt4(own);
      swapWithFirst(own, rotation & 31);
    }
    values.set(own.slice(0, elements - INT4_TILE * tile), INT4_TILE * tile);
  }
  return values;
}

/** Words where a tile's rotation stands, and where its range and codes begin. */
export function int4Places(tile: number): { readonly rotations: number; readonly words: number } {
  const group = Math.floor(tile / INT4_TILES);
  return { rotations: group * INT4_GROUP_WORDS, words: tile * INT4_TILE_WORDS + group + 1 };
}

export function swapWithFirst(values: number[], place: number): void {
  [values[0], values[place]] = [values[place] ?? 0, values[0] ?? 0];
}

/** Its own inverse: the Hadamard matrix in Sylvester's order, / √32; float32 at every addition. */
export function rotateInt4(values: number[]): void {
  for (let half = 1; half < INT4_TILE; half *= 2)
    for (let i = 0; i < INT4_TILE; i++) {
      if (i & half) continue;
      const [a, b] = [values[i] ?? 0, values[i + half] ?? 0];
      values[i] = Math.fround(a + b);
      values[i + half] = Math.fround(a - b);
    }
  for (let i = 0; i < INT4_TILE; i++) values[i] = Math.fround((values[i] ?? 0) * Math.fround(1 / Math.sqrt(INT4_TILE)));
}

export function roundToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below;
}

/** The sum of squares of a tensor that comes in pieces, as float32 or as int8: what other encodings hold is not told. */
export class PackedSquares {
  #sum = 0;
  #word = 0;
  #scale = 0;

  add(encoding: WireEncoding, words: Float32Array): void {
    if (encoding === 'f16' || encoding === 'int4') this.#sum = Number.NaN;
    else if (encoding === 'f32') for (const value of words) this.#sum += value * value;
    else this.#addInt8(words);
  }

  get sum(): number {
    return this.#sum;
  }

  #addInt8(words: Float32Array): void {
    const codes = new Int8Array(words.buffer, words.byteOffset, words.byteLength);
    for (let i = 0; i < words.length; i++, this.#word++) {
      if (this.#word % INT8_BLOCK_WORDS === 0) this.#scale = words[i] ?? 0;
      else for (const code of codes.subarray(4 * i, 4 * i + 4)) this.#sum += (this.#scale * code) ** 2;
    }
  }
}

/**
 * What gradients are multiplied with before they become halves. Their sum over a step is a mean over its B·T tokens, so a
 * single one is some B·T times too small for a half, whose least normal value is 6e-5. A power of two, hence exact; a
 * token's own gradient then saturates at 65504/256 and is exact to eleven bits down to 2e-7.
 */
export const gradientGain = (tokens: number): number => 256 * 2 ** Math.ceil(Math.log2(Math.max(1, tokens)));

/** Of a tensor's element, or of a scale: nothing in a step comes near it, and squares of it can be summed in float32. */
export const LARGEST_SOUND = 2 ** 50;
/** Bits of it as a float32, without sign: whatever is larger, infinite or no number has more. */
const LARGEST_SOUND_BITS = (127 + 50) << 23;
const HALF_INFINITY_BITS = 0x7c00;

/** Whether every element is a number of a believable size. `words` begin at this word of the packed tensor. */
export function isSound(encoding: WireEncoding, words: Uint32Array, firstWord = 0): boolean {
  switch (encoding) {
    case 'f32':
      return words.every(isSoundFloat);
    case 'f16':
      return words.every((word) => isFiniteHalf(word) && isFiniteHalf(word >>> 16));
    case 'int8':
      for (
        let at = (INT8_BLOCK_WORDS - (firstWord % INT8_BLOCK_WORDS)) % INT8_BLOCK_WORDS;
        at < words.length;
        at += INT8_BLOCK_WORDS
      )
        if (!isSoundFloat(words[at] ?? 0)) return false;
      return true;
    case 'int4':
      return words.every((word, i) => !isInt4Range(firstWord + i) || (isFiniteHalf(word) && isFiniteHalf(word >>> 16)));
    default:
      return assertNever(encoding);
  }
}

/** Whether this word of a packed tensor is a tile's range. */
const isInt4Range = (word: number): boolean => (word % INT4_GROUP_WORDS) % INT4_TILE_WORDS === 1;
const isSoundFloat = (bits: number): boolean => (bits & 0x7fffffff) <= LARGEST_SOUND_BITS;
const isFiniteHalf = (bits: number): boolean => (bits & HALF_INFINITY_BITS) !== HALF_INFINITY_BITS;
