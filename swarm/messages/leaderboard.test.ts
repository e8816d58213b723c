import { expect, test } from 'vitest';
import { leaderboard, leaderboardSchema, ranking } from './leaderboard.ts';

const CREDITS = [
  { id: 'a', name: 'Ada', team: 'Engines', tokens: 5 },
  { id: 'b', name: 'Bob', team: '', tokens: 9 },
  { id: 'c', name: 'Cyd', team: 'Engines', tokens: 6 },
  { id: 'd', name: 'Dan', team: 'Nobody', tokens: 0 },
];

test('donors and teams stand by what they gave; who gave nothing has no place', () => {
  const board = leaderboard('r', 40, ranking(CREDITS), 'a');
  expect(leaderboardSchema.parse(board)).toEqual(board);
  expect(board.donors.map(({ rank, name, tokens }) => [rank, name, tokens])).toEqual([
    [1, 'Bob', 9],
    [2, 'Cyd', 6],
    [3, 'Ada', 5],
  ]);
  expect(board.teams).toEqual([{ rank: 1, team: 'Engines', donors: 2, tokens: 11 }]);
  expect(board.mine).toEqual({ rank: 3, name: 'Ada', team: 'Engines', tokens: 5 });
  expect(leaderboard('r', 40, ranking(CREDITS), 'd').mine).toBeNull();
  expect(JSON.stringify(board)).not.toContain('"id"');
});

test('a crowd is cut, but the one who asks finds its place', () => {
  const crowd = Array.from({ length: 50 }, (_, i) => ({ id: `${i}`, name: `n${i}`, team: '', tokens: 100 - i }));
  const board = leaderboard('r', 1e4, ranking(crowd), '41');
  expect(board.donors).toHaveLength(20);
  expect(board.mine?.rank).toBe(42);
});
