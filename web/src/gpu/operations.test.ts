/** Pieces of tables and windows over arrays: they cover what they are of, once, and each fits a binding. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { PIECE_ROWS } from '../../../swarm/memory/memory.ts';
import { tablePieces } from './operations.ts';
import { parts, windowOf } from './windows.ts';

test('pieces of a table follow one another, begin where halves are bound, and fit', () => {
  expect(tablePieces(50_257, 768, 2 ** 27)).toEqual([
    { first: 0, rows: 25_216 },
    { first: 25_216, rows: 25_041 },
  ]);
  expect(tablePieces(50_257, 768, 2 ** 28)).toEqual([{ first: 0, rows: 50_257 }]);
  const shapes = fc.tuple(fc.integer({ min: 1, max: 300_000 }), fc.integer({ min: 1, max: 9_000 }));
  fc.assert(
    fc.property(shapes, fc.integer({ min: 2 ** 23, max: 2 ** 30 }), ([rows, width], bindingBytes) => {
      let end = 0;
      for (const piece of tablePieces(rows, width, bindingBytes)) {
        expect(piece.first).toBe(end);
        expect(piece.first % PIECE_ROWS).toBe(0);
        expect(piece.rows * width * 4).toBeLessThanOrEqual(bindingBytes);
        end += piece.rows;
      }
      expect(end).toBe(rows);
    }),
    { seed: 1, numRuns: 300 },
  );
});

test('windows over parts of an array begin where WebGPU binds, hold the part, and fit', () => {
  const ints = (max: number) => fc.integer({ min: 1, max });
  fc.assert(
    fc.property(ints(5_000_000), fc.nat(10_000), ints(1_000), fc.constantFrom(2, 4), (n, at, kibis, elementBytes) => {
      const bindingBytes = 4096 + kibis * 1024;
      const buffer = { size: 4 * (n + at) } as GPUBuffer;
      let end = 0;
      for (const { from, length } of parts(n, bindingBytes)) {
        expect(from).toBe(end);
        end += length;
        if (buffer.size > bindingBytes && 4 * n <= bindingBytes) continue; // bound by its own length alone
        const { slice, at: inside } = windowOf(buffer, { at: at + from, length }, bindingBytes, elementBytes);
        const { offset = 0, size = buffer.size } = slice;
        expect(offset % 256).toBe(0);
        expect(offset + inside * elementBytes).toBe((at + from) * elementBytes);
        expect((inside + length) * elementBytes).toBeLessThanOrEqual(size);
        expect(size).toBeLessThanOrEqual(bindingBytes);
      }
      expect(end).toBe(n);
    }),
    { seed: 1, numRuns: 300 },
  );
});
