import { describe, expect, it } from 'vitest';
import { INT8_BLOCK_WORDS, int8Code, int8Scale, isSound, LARGEST_SOUND, PackedSquares, packedWords } from './wire.ts';

const floats = (...values: number[]): Uint32Array => new Uint32Array(new Float32Array(values).buffer);

describe('[WI12] a tensor is sound', () => {
  it.each([
    [0, true],
    [-0, true],
    [1e-45, true],
    [-LARGEST_SOUND, true],
    [LARGEST_SOUND * (1 + 2 ** -23), false],
    [-3e38, false],
    [Number.POSITIVE_INFINITY, false],
    [Number.NEGATIVE_INFINITY, false],
    [Number.NaN, false],
  ])('f32: %s', (value, sound) => {
    expect(isSound('f32', floats(1, 2, value, 3))).toBe(sound);
  });

  it.each([
    [0x3c00_3c00, true],
    [0xfbff_7bff, true],
    [0x3c00_7c00, false],
    [0xfc00_3c00, false],
    [0x7e00_0000, false],
    [0x0000_fe01, false],
  ])('f16: two halves %s', (word, sound) => {
    expect(isSound('f16', new Uint32Array([0, word, 0]))).toBe(sound);
  });

  it('int8: its scales alone, wherever a frame of it begins', () => {
    const words = new Uint32Array(packedWords('int8', 200)).fill(0xffff_ffff);
    const scales = [0, 1, 2, 3].map((block) => block * INT8_BLOCK_WORDS);
    const [one = 0, nan = 0] = floats(1, Number.NaN);
    for (const at of scales) words[at] = one;
    for (const from of [0, 1, 16, 17, 20, 51, 52]) expect(isSound('int8', words.subarray(from), from)).toBe(true);
    words[2 * INT8_BLOCK_WORDS] = nan;
    for (const from of [0, 1, 16, 17, 33, 34]) expect(isSound('int8', words.subarray(from), from)).toBe(false);
    for (const from of [35, 51]) expect(isSound('int8', words.subarray(from), from)).toBe(true);
  });

  it('int4: the ranges of its tiles alone, wherever a frame of it begins', () => {
    // Six whole tiles and a part of a seventh: a word of rotations before the first and before the sixth.
    const words = new Uint32Array(packedWords('int4', 200)).fill(0xffff_ffff);
    expect(words).toHaveLength(7 * 5 + 2);
    for (const at of [1, 6, 11, 16, 21, 27, 32]) words[at] = 0x7bff_fbff;
    for (const from of [0, 1, 2, 6, 22, 26, 27, 33]) expect(isSound('int4', words.subarray(from), from)).toBe(true);
    for (const broken of [0x7c00_0000, 0x0000_fe00]) {
      words[27] = broken;
      for (const from of [0, 1, 22, 26, 27]) expect(isSound('int4', words.subarray(from), from)).toBe(false);
      for (const from of [28, 32]) expect(isSound('int4', words.subarray(from), from)).toBe(true);
    }
  });
});

describe('[RE46] the squares of a tensor that comes in pieces', () => {
  const values = Float32Array.from({ length: 150 }, (_, i) => Math.sin(i) * 10 ** ((i % 7) - 3));
  const summed = (words: Float32Array, encoding: 'f32' | 'int8', cut: number): number => {
    const squares = new PackedSquares();
    for (const piece of [words.subarray(0, cut), words.subarray(cut)]) squares.add(encoding, piece);
    return squares.sum;
  };

  it.each([0, 1, 16, 17, 18, 40])('wherever they are cut: after %i words', (cut) => {
    const exact = values.reduce((sum, value) => sum + value * value, 0);
    expect(summed(values, 'f32', cut)).toBeCloseTo(exact, 6);
    const words = new Float32Array(packedWords('int8', values.length));
    const codes = new Int8Array(words.buffer);
    let ofCodes = 0;
    for (let start = 0, word = 0; start < values.length; start += 64, word += INT8_BLOCK_WORDS) {
      const block = values.subarray(start, start + 64);
      const scale = int8Scale(block);
      words[word] = scale;
      block.forEach((value, i) => {
        codes[4 * (word + 1) + i] = int8Code(value, scale);
        ofCodes += (scale * int8Code(value, scale)) ** 2;
      });
    }
    expect(summed(words, 'int8', cut) / ofCodes).toBeCloseTo(1, 12);
  });

  it('is not told of others', () => {
    const squares = new PackedSquares();
    squares.add('f16', values);
    expect(squares.sum).toBeNaN();
  });
});
