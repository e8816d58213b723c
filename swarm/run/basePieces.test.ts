import { describe, expect, test } from 'vitest';
import { seededRandom } from '../base.ts';
import { blockOf } from '../model/model.ts';
import { decodePiece, encodePiece, pieceRanges } from './basePieces.ts';

const block = blockOf('layer.0', [
  { name: 'norm', shape: [7], initial: 'ones' },
  { name: 'matrix', shape: [5, 70], initial: 'normal' },
  { name: 'bias', shape: [3], initial: 'zeros' },
]);
const random = seededRandom(3);
const values = Float32Array.from({ length: block.elements }, () => 4 * (random() - 0.5));

function through(encoding: 'f32' | 'f16' | 'int8', most: number): { bytes: number; back: Float32Array } {
  const back = new Float32Array(block.elements);
  let bytes = 0;
  for (const range of pieceRanges(block, most)) {
    const encoded = encodePiece(block, range, encoding, values.subarray(...range));
    if (!encoded.ok) throw new Error(encoded.reason);
    bytes += encoded.value.byteLength;
    back.set(decodePiece(block, range, encoding, encoded.value.buffer), range[0]);
  }
  return { bytes, back };
}

describe('pieces of a base', () => {
  test('[WI37] are cut between rows, and cover the block', () => {
    expect(pieceRanges(block, 1_000)).toEqual([[0, 360]]);
    expect(pieceRanges(block, 150)).toEqual([
      [0, 147],
      [147, 287],
      [287, 360],
    ]);
    // A row that is longer than a piece may be is one.
    expect(pieceRanges(block, 60).map(([, to]) => to)).toEqual([7, 77, 147, 217, 287, 357, 360]);
  });

  test.each([150, 1_000])(
    '[WI37] f32 as they are, f16 and int8 within half a step, norms and biases exact (%i)',
    (most) => {
      expect(through('f32', most)).toEqual({ bytes: 4 * 360, back: values });
      const [half, int8] = [through('f16', most), through('int8', most)];
      expect(half.bytes).toBe(4 * 10 + 2 * 350);
      expect(int8.bytes).toBe(4 * 10 + 5 * (4 * 2 + 72));
      for (let i = 0; i < values.length; i++) {
        const [value = 0, isMatrix] = [values[i], i >= 7 && i < 357];
        expect(Math.abs((half.back[i] ?? 0) - value)).toBeLessThanOrEqual(isMatrix ? Math.abs(value) * 2 ** -11 : 0);
        expect(Math.abs((int8.back[i] ?? 0) - value)).toBeLessThanOrEqual(isMatrix ? 2 / 127 : 0);
      }
      // How the pieces are cut changes nothing: a row is packed for itself.
      expect(int8.back).toEqual(through('int8', 60).back);
    },
  );

  test('[WI37] halves: every one comes back, what is between two goes to the even one, too large is refused by tensor', () => {
    const matrix = (...own: number[]) =>
      blockOf('head', [{ name: 'lm_head.weight', shape: [1, own.length], initial: 'normal' }]);
    const trip = (...own: number[]): number[] => {
      const one = matrix(...own);
      const encoded = encodePiece(one, [0, own.length], 'f16', Float32Array.from(own));
      if (!encoded.ok) throw new Error(encoded.reason);
      return [...decodePiece(one, [0, own.length], 'f16', encoded.value.buffer)];
    };
    const exact = [1, -2.5, 65_504, -(2 ** -24), 2 ** -14, 1023 * 2 ** -24, 0, 0.333251953125];
    expect(trip(...exact)).toEqual(exact);
    expect(trip(1 + 2 ** -11, 1 + 3 * 2 ** -11, 65_519, 2047.9, 2 ** -25)).toEqual([1, 1 + 2 ** -9, 65_504, 2048, 0]);
    expect(encodePiece(matrix(1, 65_520), [0, 2], 'f16', Float32Array.of(1, 65_520))).toEqual({
      ok: false,
      reason: expect.stringContaining('lm_head.weight has 65520 at its element 1'),
    });
  });
});
