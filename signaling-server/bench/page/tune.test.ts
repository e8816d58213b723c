/** The rows that the tuning prints, from times that were made up, as tiles.ts reads them. */
import { expect, test } from 'vitest';
import { GPU_CANDIDATES, GPU_TILES, hasRoomForEpilogue, ruleFor } from '../../../shaders/family/tiles.ts';
import { rowsOf } from './tune.ts';

test('a tile without room for an epilogue gets bare rows, and what may have one gets the best of the other tiles', () => {
  const shapes = [
    { size: 4, ms: [1, 2, 3] },
    { size: 64, ms: [8, 4, 3] },
    { size: 256, ms: [32, 16, 9] },
  ];
  const rows = rowsOf('NN', shapes, [false, false, true]);
  const chosen = (size: number, isBare: boolean) => ruleFor(rows, 'NN', size, isBare).candidate;
  expect(shapes.map(({ size }) => chosen(size, true))).toEqual([0, 2, 2]);
  expect(shapes.map(({ size }) => chosen(size, false))).toEqual([0, 1, 1]);
  // Where the others are faster anyway, nobody needs rows of their own.
  expect(rowsOf('NN', shapes, [false, true, false])).toEqual([
    { layouts: ['NN'], from: 64, candidate: 2 },
    { layouts: ['NN'], from: 0, candidate: 0 },
  ]);
});

test('every row of the table that an epilogue may meet has room for it, as most candidates do', () => {
  for (const row of GPU_TILES) expect(row.bare ?? hasRoomForEpilogue(row)).toBe(true);
  expect(GPU_CANDIDATES.map(hasRoomForEpilogue)).toEqual([true, true, false, true, true, false]);
});
