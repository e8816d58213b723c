import { describe, expect, test } from 'vitest';
import { correctionOf, formatBits, frameOf, MASKS, qrCode, versionBits, zigzag } from './qr.ts';

/** Table C.1 of ISO/IEC 18004, level L. */
const FORMATS = ['111011111000100', '111001011110011', '111110110101010', '111100010011101']
  .concat(['110011000101111', '110001100011000', '110110001000001', '110100101110110'])
  .map((bits) => Number.parseInt(bits, 2));

/** Words of a code that has one block, read as a scanner does: the mask out of the format, the bits in their order. */
function read(code: readonly (readonly boolean[])[]): { readonly words: number[]; readonly mask: number } {
  const size = code.length;
  const format = Array.from({ length: 8 }, (_, bit) => (code[8]?.[size - 1 - bit] ? 1 << bit : 0)).reduce(
    (a, b) => a + b,
  );
  const mask = FORMATS.findIndex((bits) => (bits & 0xff) === format);
  const bits = [...zigzag(frameOf((size - 17) / 4))].map(([row, column]) =>
    Number((code[row]?.[column] ?? false) !== MASKS[mask]?.(row, column)),
  );
  const words = Array.from({ length: Math.floor(bits.length / 8) }, (_, at) =>
    Number.parseInt(bits.slice(8 * at, 8 * at + 8).join(''), 2),
  );
  return { words, mask };
}

describe('a QR code', () => {
  test('corrects as the standard does: its example of version 1-M', () => {
    const data = [32, 91, 11, 120, 209, 114, 220, 77, 67, 64, 236, 17, 236, 17, 236, 17];
    expect(correctionOf(data, 10)).toEqual([196, 35, 39, 119, 235, 215, 231, 226, 93, 23]);
  });

  test('says its format and its version as the tables of the standard do', () => {
    expect(FORMATS.map((_, mask) => formatBits(mask))).toEqual(FORMATS);
    expect(versionBits(7)).toBe(0b000111110010010100);
  });

  test('is read back, in every version of one block', () => {
    for (const length of [1, 17, 18, 32, 53, 78, 79, 106]) {
      const text = 'https://example.org/#invite='.padEnd(length, 'x').slice(0, length);
      const code = qrCode(text) ?? [];
      const { words, mask } = read(code);
      expect(mask).toBeGreaterThanOrEqual(0);
      const bits = words.map((word) => word.toString(2).padStart(8, '0')).join('');
      expect(bits.slice(0, 12)).toBe(`0100${length.toString(2).padStart(8, '0')}`);
      const said = Array.from({ length }, (_, at) =>
        String.fromCharCode(Number.parseInt(bits.slice(12 + 8 * at, 20 + 8 * at), 2)),
      );
      expect(said.join('')).toBe(text);
    }
  });

  test('has as many free places as the standard has words, and is as large', () => {
    // Words of versions 1 to 9, of table 1; what is left over are a few bits.
    for (const [at, words] of [26, 44, 70, 100, 134, 172, 196, 242, 292].entries()) {
      const places = [...zigzag(frameOf(at + 1))].length;
      expect(Math.floor(places / 8)).toBe(words);
    }
    expect(qrCode('x'.repeat(230))).toHaveLength(53);
    expect(qrCode('x'.repeat(231))).toBe(null);
  });
});
