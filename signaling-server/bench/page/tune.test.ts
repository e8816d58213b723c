/** The rows that the tuning prints, from times that were made up, as tiles.ts reads them. */
import { expect, test } from 'vitest';
import { ruleFor } from '../../../shaders/family/tiles.ts';
import { rowsOf } from './tune.ts';

test('small grids and large ones get a row each where other tiles are best there', () => {
  const shapes = [
    { size: 4, ms: [1, 2, 3] },
    { size: 64, ms: [8, 4, 3] },
    { size: 256, ms: [32, 16, 9] },
  ];
  const rows = rowsOf('NN', shapes);
  expect(shapes.map(({ size }) => ruleFor(rows, 'NN', size).candidate)).toEqual([0, 2, 2]);
  expect(rows).toEqual([
    { layouts: ['NN'], from: 64, candidate: 2 },
    { layouts: ['NN'], from: 0, candidate: 0 },
  ]);
});

test('one row where one tile is best everywhere', () => {
  expect(rowsOf('TN', [{ size: 4, ms: [2, 1] }])).toEqual([{ layouts: ['TN'], from: 0, candidate: 1 }]);
});
