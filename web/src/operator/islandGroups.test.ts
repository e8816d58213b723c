import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { groupText, islandNumbers, islandSign, plansOf } from './islandGroups.ts';

const [A, B, C] = ['a', 'b', 'c'].map(peerId) as [ReturnType<typeof peerId>, ...ReturnType<typeof peerId>[]];
const island = (number: number, innerStep: number) => ({ number, innerStep, innerSteps: 6 });
const TURNS = { donors: [A], round: 2, active: 1, islands: [island(0, 6), island(1, 3), island(2, 0)] };

test('[IS2] of islands by turns one trains, those before await the meeting, those after their turn', () => {
  expect(TURNS.islands.map((each) => islandSign(TURNS, each).word)).toEqual([
    ...['Awaits the meeting', 'Training', 'Awaits its turn'],
  ]);
  const alone = { ...TURNS, active: null, islands: [{ ...island(4, 3), innerSteps: null }] };
  expect(alone.islands.map((each) => islandSign(alone, each).word)).toEqual(['Awaits the meeting']);
  const deserted = { ...TURNS, donors: [] };
  expect(TURNS.islands.map((each) => islandSign(deserted, each).word)).toEqual(['No donors', 'No donors', 'No donors']);
});

test('groups are named by their islands, and a run has those of all groups', () => {
  expect(groupText(TURNS)).toBe('Islands 1 to 3, by turns');
  expect(groupText({ islands: [island(0, 0), island(1, 0)] })).toBe('Islands 1 and 2, by turns');
  expect(groupText({ islands: [island(4, 0)] })).toBe('Island 5');
  expect(islandNumbers({ groups: [{ ...TURNS, islands: [island(12, 0)] }, TURNS] })).toEqual([0, 1, 2, 12]);
  expect(islandNumbers({})).toBe(null);
});

test('a plan is drawn in the box of the group that has all of its members', () => {
  const member = (peer: string) => ({ peer, microBatches: [0], samples: 1, recompute: [] });
  const plan = (...names: string[]) => ({
    stages: names.map((name) => ({ layers: [0, 1] as [number, number], members: [member(name)], copies: [] })),
  });
  const plans = [plan('a', 'b'), plan('c'), plan('b', 'c')];
  expect(plansOf({ donors: [A, B ?? A] }, plans)).toEqual([plans[0]]);
  expect(plansOf({ donors: [C ?? A] }, plans)).toEqual([plans[1]]);
});
