import fc from 'fast-check';
import { expect, test } from 'vitest';
import { arrayOf } from '../base.ts';
import { allFree, type Free, freeBut, givenBack, mayTake, mostOfRound, roundTerms, taken } from './giving.ts';

const take = (free: Free): [number, Free] => {
  const found = taken(free);
  if (found === null) throw new Error('nothing is free');
  return [...found];
};

test('[IS65] free numbers are given out lowest first, and what comes back goes first', () => {
  let free = allFree(4);
  let number: number;
  [number, free] = take(free);
  expect(number).toBe(0);
  [number, free] = take(free);
  expect(number).toBe(1);
  free = givenBack(free, [0]);
  [number, free] = take(free);
  expect(number).toBe(0);
  [number, free] = take(free);
  [number, free] = take(free);
  expect(number).toBe(3);
  expect(taken(free)).toBeNull();
  expect(freeBut(6, [0, 2, 4])).toEqual({ steps: 6, next: 5, back: [1, 3] });
});

test('[IS65] each number is done once, whoever comes, is lost or is late', () => {
  const event = fc.record({ who: fc.nat(3), what: fc.constantFrom('take', 'do', 'lose', 'join', 'back') });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), fc.array(event, { maxLength: 200 }), (steps, events) => {
      let free = allFree(steps);
      const has = new Map<number, number[]>();
      const done: number[] = [];
      for (const { who, what } of events) {
        const own = has.get(who);
        if (what === 'join') has.set(who, own ?? []);
        else if (own === undefined) continue;
        else if (what === 'take') {
          const found = taken(free);
          if (found === null) continue;
          const others = [...has.values()].flat();
          // None that is lower is nobody's.
          for (let lower = 0; lower < found[0]; lower++) expect([...done, ...others]).toContain(lower);
          own.push(found[0]);
          free = found[1];
        } else if (what === 'do') done.push(...own.splice(0, 1));
        else if (what === 'back') free = givenBack(free, own.splice(0));
        else {
          free = givenBack(free, own);
          has.delete(who);
        }
      }
      for (const own of has.values()) free = givenBack(free, own);
      expect(freeBut(steps, done).next).toBeLessThanOrEqual(steps);
      for (let found = taken(free); found !== null; found = taken(free)) {
        done.push(found[0]);
        free = found[1];
      }
      expect(done.toSorted((a, b) => a - b)).toEqual(arrayOf(steps, (number) => number));
    }),
  );
});

test('[IS66] a round is as long as the file says, or shorter, so that twenty fit into the run', () => {
  const auto = { roundSeconds: 10 };
  // Together three steps in 20 ms; 1,000 steps are twenty rounds of 50, each 333 ms.
  const paces = [
    { stepMs: 10, most: 0.1 },
    { stepMs: 20, most: 0.05 },
  ];
  expect(mostOfRound(1_000)).toBe(50);
  expect(roundTerms(auto, 1_000, paces, 50).lastsMs).toBeCloseTo(1_000 / 3, 9);
  expect(roundTerms(auto, 1_000_000, paces, 50).lastsMs).toBe(10_000);
  expect(roundTerms(auto, 1_000_000, [{ stepMs: null, most: null }], 0).lastsMs).toBe(10_000);
  // No round is shorter than a step.
  expect(roundTerms(auto, 20, paces, 1)).toMatchObject({ lastsMs: 10, most: 1 });
});

test('[IS66] no step is given out that would end after the round, but a first one that is little longer', () => {
  const terms = { lastsMs: 100, most: 1_000, first: 4 };
  const may = (stepMs: number, own: number, spentMs: number) =>
    mayTake(terms, { stepMs, most: 1 }, { own, all: own }, spentMs);
  expect([may(50, 1, 50), may(50, 1, 51)]).toEqual([true, false]);
  expect([may(125, 0, 0), may(126, 0, 0), may(101, 0, 1)]).toEqual([true, false, false]);
  expect(mayTake(terms, { stepMs: 1, most: 1 }, { own: 0, all: 1_000 }, 0)).toBe(false);
});

test('a newcomer does a few steps, a hundredth of the round before at most; who did some half as many again', () => {
  const first = (before: number) => roundTerms({ roundSeconds: 1 }, 1e6, [], before).first;
  expect([0, 10, 100, 250, 399, 400, 10_000].map(first)).toEqual([4, 1, 1, 2, 3, 4, 4]);
  const terms = { lastsMs: 100, most: 1_000, first: 2 };
  const newcomer = { stepMs: 1, most: null };
  expect([1, 2].map((own) => mayTake(terms, newcomer, { own, all: own }, 0))).toEqual([true, false]);
  // It was seen to do 10 in as long a time.
  const known = { stepMs: 1, most: 0.1 };
  expect([14, 15].map((own) => mayTake(terms, known, { own, all: own }, 0))).toEqual([true, false]);
});
