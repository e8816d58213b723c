import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { arrayOf } from '../base.ts';
import { islandsOf } from '../testing/islands.ts';
import {
  byNumber,
  endsRoundOf,
  isMeeting,
  laterStep,
  nextStep,
  roundEnd,
  roundSoFar,
  stepsAhead,
  stepsBefore,
  type Turn,
  turnAt,
  wholeRounds,
  withNumbers,
} from './rounds.ts';

const turns = (train: Parameters<typeof turnAt>[0]) => arrayOf(train.steps, (at) => turnAt(train, at));
const text = ({ number, island, round, innerStep, time, endsTurn, endsRound }: Turn) =>
  `${number}: island ${island} round ${round} inner ${innerStep} time ${time}${endsTurn ? ' turn' : ''}${endsRound ? ' round' : ''}`;

test('[IS2] three islands of two steps, eleven steps: the list worked out by hand', () => {
  expect(turns({ steps: 11, islands: islandsOf(3, 2) }).map(text)).toEqual([
    '0: island 0 round 0 inner 0 time 1',
    '3: island 0 round 0 inner 1 time 2 turn',
    '1: island 1 round 0 inner 0 time 1',
    '4: island 1 round 0 inner 1 time 2 turn',
    '2: island 2 round 0 inner 0 time 1',
    '5: island 2 round 0 inner 1 time 2 turn round',
    // The last round has five numbers left, so that the last island does one step less.
    '6: island 0 round 1 inner 0 time 3',
    '9: island 0 round 1 inner 1 time 4 turn',
    '7: island 1 round 1 inner 0 time 3',
    '10: island 1 round 1 inner 1 time 4 turn',
    '8: island 2 round 1 inner 0 time 3 turn round',
  ]);
});

test('[IS2] a last round with fewer numbers than islands: those past them do nothing', () => {
  const train = { steps: 8, islands: islandsOf(3, 2) };
  expect(turns(train).slice(6).map(text)).toEqual([
    '6: island 0 round 1 inner 0 time 3 turn',
    '7: island 1 round 1 inner 0 time 3 turn round',
  ]);
  expect(arrayOf(9, (count) => isMeeting(train, count))).toEqual([
    ...[true, false, false, false, false, false, true, false, true],
  ]);
});

test('[IS40] of a round a group does the counts of its islands: of three islands and eight steps', () => {
  const train = { steps: 8, islands: islandsOf(3, 2) };
  const next = (own?: number[]) => arrayOf(8, (count) => nextStep(train, count, own));
  expect(next()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(next([0])).toEqual([0, 1, null, null, null, null, 6, null]);
  expect(next([1])).toEqual([2, 2, 2, 3, null, null, 7, 7]);
  expect(next([2])).toEqual([4, 4, 4, 4, 4, 5, null, null]);
  expect(next([0, 2])).toEqual([0, 1, 4, 4, 4, 5, 6, null]);
  expect(arrayOf(8, (count) => roundEnd(train, count))).toEqual([6, 6, 6, 6, 6, 6, 8, 8]);
  const ends = (counts: readonly number[], own?: number[]) => counts.filter((count) => endsRoundOf(train, count, own));
  expect(ends([0, 1, 2, 3, 4, 5, 6, 7])).toEqual([5, 7]);
  expect(ends([0, 1, 6], [0])).toEqual([1, 6]);
  expect(ends([2, 3, 4, 5, 7], [1, 2])).toEqual([5, 7]);
});

test('[IS40] nobody is further than the next step of a group, or than the first one after its meeting', () => {
  const train = { steps: 8, islands: islandsOf(3, 2) };
  expect(stepsAhead(train, 3)).toEqual([4]);
  expect(stepsAhead(train, 0, [0, 2])).toEqual([1]);
  expect(stepsAhead(train, 1, [0, 2])).toEqual([4]);
  expect(stepsAhead(train, 5, [0, 2])).toEqual([6, 6]); // the values of the meeting, and step 6
  expect(stepsAhead(train, 3, [1])).toEqual([6, 7]);
  expect(stepsAhead(train, 6, [1])).toEqual([7]);
  expect(stepsAhead(train, 5, [2])).toEqual([6, 8]); // it has no step in the last round
  expect([0, 2, 4, 6, 7].map((count) => laterStep(train, count, [0]))).toEqual([0, 6, 6, 6, null]);
  expect(laterStep(train, 6, [2])).toBeNull();
});

test('[IS2] one island alone meets after its own steps', () => {
  expect(turns({ steps: 3, islands: islandsOf(1, 2) }).map(text)).toEqual([
    '0: island 0 round 0 inner 0 time 1',
    '1: island 0 round 0 inner 1 time 2 turn round',
    '2: island 0 round 1 inner 0 time 3 turn round',
  ]);
});

test('[IS2] without islands count and number are one, and every boundary is a meeting', () => {
  expect(text(turnAt({ steps: 5 }, 3))).toBe('3: island 0 round 3 inner 0 time 4 turn round');
  expect(isMeeting({ steps: 5 }, 4)).toBe(true);
});

test('[IS2] numbers, islands and rounds are those of the reference trainer, each number once', () => {
  const lines = readFileSync(new URL('../../e2e/golden/islands-f32/expected.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line): unknown => JSON.parse(line));
  const done = turns({ steps: 40, islands: islandsOf(2, 6) }).toSorted((a, b) => a.number - b.number);
  expect(done.map(({ number, island, round }) => ({ step: number, island, round }))).toEqual(
    lines.map((line) => {
      const { step, island, round } = line as Record<string, number>;
      return { step, island, round };
    }),
  );
});

test('[IS11] checkpoints and evaluations are due after whole rounds', () => {
  const rounds = { islands: islandsOf(2, 6) };
  expect([1, 12, 13, 20].map((every) => wholeRounds(rounds, every))).toEqual([12, 12, 24, 24]);
  expect(wholeRounds({}, 7)).toBe(7);
});

test('curves go by numbers, those of a run without islands by what they have', () => {
  const steps = [0, 1, 2, 3].map((step) => ({ step, loss: 10 - step }));
  const known = withNumbers({ steps: 4, islands: islandsOf(2, 2) }, steps);
  expect(byNumber(known).map(({ step, loss }) => [step, loss])).toEqual([
    ...[
      [0, 10],
      [1, 8],
      [2, 9],
      [3, 7],
    ],
  ]);
  expect(known.map(({ island }) => island)).toEqual([0, 0, 1, 1]);
  expect(byNumber(withNumbers({ steps: 4 }, steps))).toBe(steps);
});

test('what stands of the round under way, island by island', () => {
  const rounds = { steps: 7, islands: islandsOf(2, 2) };
  const said = (count: number): string => {
    const { round, active, islands } = roundSoFar(rounds, count);
    return `${round} ${active} ${islands.map(({ innerStep, innerSteps }) => `${innerStep}/${innerSteps}`).join(' ')}`;
  };
  expect([0, 1, 2, 3, 4, 6, 7].map(said)).toEqual([
    ...['0 0 0/2 0/2', '0 0 1/2 0/2', '0 1 2/2 0/2', '0 1 2/2 1/2'],
    // The last round is cut short: of three steps the first island does two.
    ...['1 0 0/2 0/1', '1 1 2/2 0/1', '1 null 2/2 1/1'],
  ]);
});

test('of a round it is known how many steps of some islands stand: worked out by hand', () => {
  // Rounds of islands 0 0 1 1 2 2, the last one 0 0 1 1 2.
  const train = { steps: 11, islands: islandsOf(3, 2) };
  expect([0, 1, 2, 5, 6].map((position) => stepsBefore(train, 0, position, [0, 2]))).toEqual([0, 1, 2, 3, 4]);
  expect([6, 9, 11].map((position) => stepsBefore(train, 6, position, [1, 2]))).toEqual([0, 1, 3]);
});

test('after the last step no island has another one', () => {
  const train = { steps: 12, islands: islandsOf(2, 2) };
  for (const own of [[0], [1]]) expect(nextStep(train, 12, own)).toBeNull();
});
