import { expect, test } from 'vitest';
import { foundRuns, type RunOrder, withActive } from './runsSection.tsx';

const run = (name: string, createdAtMs: number, heldOutLoss: number | null, committedSteps: number, note = '') => ({
  ...{ name, createdAtMs, heldOutLoss, committedSteps, note, steps: 100, isActive: name === 'now' },
});
const RUNS = [run('a-10', 1, 2, 50), run('a-9', 2, null, 100, 'lower rate'), run('now', 0, 9, 1), run('b', 3, 1, 0)];
const names = (search: string, order: RunOrder) => foundRuns(RUNS, { search, order }).map(({ name }) => name);

test('runs are found by words of their name and note, and sorted; the active one is first', () => {
  expect(names('', 'newest')).toEqual(['now', 'b', 'a-9', 'a-10']);
  expect(names('', 'name')).toEqual(['now', 'a-9', 'a-10', 'b']);
  expect(names('', 'loss')).toEqual(['now', 'b', 'a-10', 'a-9']);
  expect(names('', 'progress')).toEqual(['now', 'a-9', 'a-10', 'b']);
  expect(names('A- Rate', 'newest')).toEqual(['a-9']);
});

test('after a change of runs one run is active, whatever the list said before', () => {
  const listed = [
    { name: 'old', isActive: true, isBeside: false },
    { name: 'new', isActive: false, isBeside: false },
    { name: 'beside', isActive: false, isBeside: true },
  ];
  const active = (watched: string) =>
    withActive(listed, watched).flatMap(({ name, isActive }) => (isActive ? name : []));
  expect(['old', 'new', 'beside', 'not listed yet'].map(active)).toEqual([['old'], ['new'], ['old'], ['old']]);
});
