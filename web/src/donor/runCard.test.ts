import { expect, test } from 'vitest';
import { curveTo } from './runCard.tsx';

const TOLD = {
  run: 'whale',
  curve: [
    [1, 5],
    [10, 4],
    [20, 3],
  ] as [number, number][],
};
const newest = (committedSteps: number, loss: number | null = 2) => ({ run: 'whale', committedSteps, loss });

test('the curve ends at the step that stands beside it', () => {
  expect(curveTo(TOLD, newest(27))).toEqual([...TOLD.curve, [27, 2]]);
  expect(curveTo(TOLD, newest(20, 3))).toEqual(TOLD.curve);
  expect(curveTo(TOLD, null)).toEqual(TOLD.curve);
});

test('steps that were taken back are not on it; another run, and islands, have curves of their own', () => {
  expect(curveTo(TOLD, newest(10, 4))).toEqual([
    [1, 5],
    [10, 4],
  ]);
  expect(curveTo(TOLD, newest(0, null))).toEqual([]);
  expect(curveTo(TOLD, { ...newest(27), run: 'speeches' })).toEqual(TOLD.curve);
  expect(curveTo(TOLD, { ...newest(27), groups: [] })).toEqual(TOLD.curve);
});
