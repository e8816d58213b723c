import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { neededMost, type RunWant } from './neededMost.ts';

const want = (run: string, given: Partial<RunWant> = {}): RunWant => ({
  ...{ run, phase: 'training', committedSteps: 1, steps: 10, donors: 1, missingBytes: null, secondsLeft: 60 },
  ...given,
});

describe('where a donor is needed most', () => {
  it.each<[string, readonly RunWant[], number, string | null]>([
    ['the longest to go', [want('a', { secondsLeft: 60 }), want('b', { secondsLeft: 61 })], 1, 'b'],
    [
      'a time that is not known is the longest',
      [want('a', { secondsLeft: 1e9 }), want('b', { secondsLeft: null })],
      1,
      'b',
    ],
    ['equal ones by name', [want('b'), want('a')], 1, 'a'],
    ['equal unknown ones by name', [want('b', { secondsLeft: null }), want('a', { secondsLeft: null })], 1, 'a'],
    [
      'one that stands, before any that goes',
      [want('a', { secondsLeft: null }), want('b', { missingBytes: 9 })],
      1,
      'b',
    ],
    ['with whom it can begin', [want('a', { missingBytes: 9 }), want('b', { missingBytes: 5 })], 5, 'b'],
    ['the most that it fills', [want('a', { missingBytes: 2 }), want('b', { missingBytes: 5 })], 6, 'b'],
    ['else where the least is missing', [want('a', { missingBytes: 9 }), want('b', { missingBytes: 8 })], 5, 'b'],
    [
      'not a paused one, nor a finished one',
      [want('a', { phase: 'paused' }), want('b', { phase: 'finished' })],
      5,
      null,
    ],
    ['a paused one lacks nothing', [want('a', { phase: 'paused', missingBytes: 1 }), want('b')], 5, 'b'],
    ['no runs', [], 5, null],
  ])('%s', (_, wants, memoryBytes, chosen) => {
    expect(neededMost(wants, memoryBytes)).toBe(chosen);
  });

  /**
   * What is left to be wished for when the donor is at `chosen`, the less the better, the first number first: runs that stand,
   * what the next donor must bring for one of them to begin, when the last of those that go ends.
   */
  function leftAfter(wants: readonly RunWant[], chosen: string, memoryBytes: number, speed: number): number[] {
    const after = wants.map(({ run, missingBytes, secondsLeft, donors }) => {
      const isHere = run === chosen;
      const missing = missingBytes === null ? 0 : Math.max(0, missingBytes - (isHere ? memoryBytes : 0));
      const work = (secondsLeft ?? 0) * donors;
      return { missing, wasStanding: missingBytes !== null, seconds: work / (donors + (isHere ? speed : 0)) };
    });
    const standing = after.filter(({ missing }) => missing > 0).map(({ missing }) => missing);
    const going = after.filter(({ wasStanding }) => !wasStanding).map(({ seconds }) => seconds);
    return [standing.length, Math.min(...standing, Number.MAX_VALUE), Math.max(0, ...going)];
  }

  const isBetter = (one: readonly number[], other: readonly number[]): boolean => {
    const at = one.findIndex((value, index) => value !== other[index]);
    return at >= 0 && (one[at] ?? 0) < (other[at] ?? 0);
  };

  it('no other choice leaves less to be wished for, whatever runs there are', () => {
    const arbitraryWant = fc.record({
      missingBytes: fc.option(fc.integer({ min: 1, max: 6 }), { freq: 2 }),
      secondsLeft: fc.integer({ min: 1, max: 6 }),
      donors: fc.integer({ min: 1, max: 4 }),
    });
    const given = [fc.array(arbitraryWant, { minLength: 1, maxLength: 5 }), fc.integer({ min: 1, max: 6 })] as const;
    fc.assert(
      fc.property(...given, fc.constantFrom(0.1, 1, 7), (parts, memoryBytes, speed) => {
        const wants = parts.map((part, index) => want(`run${index}`, part));
        const chosen = neededMost(wants, memoryBytes) ?? '';
        const own = leftAfter(wants, chosen, memoryBytes, speed);
        return wants.every(({ run }) => !isBetter(leftAfter(wants, run, memoryBytes, speed), own));
      }),
      { numRuns: 2_000 },
    );
  });
});
