import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { isInDoubt, Keeper, keepChecks, keptChecks } from './keeper.ts';
import { type DonorState, INITIAL_STATE } from './state.ts';

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal('localStorage', {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
});
afterEach(() => vi.unstubAllGlobals());

/** A tab in its first visit, after so many steps of 100 tokens, all of them its own. */
const after = (run: string, committedSteps: number): DonorState => ({
  ...INITIAL_STATE,
  visit: 1,
  me: 'a' as DonorState['me'],
  run: { name: run, stepTargets: 100 } as DonorState['run'], // all that is asked for
  snapshot: {
    ...{ run, committedSteps, donors: [{ peer: 'a', tokens: 100 * committedSteps }] },
  } as unknown as DonorState['snapshot'],
});

test('what was given to one run stays given when the operator changes to another in the same visit', () => {
  const keeper = new Keeper(
    () => {},
    () => {},
  );
  let seen = INITIAL_STATE;
  for (const next of [
    after('first', 3),
    after('first', 5),
    after('second', 0),
    after('second', 1),
    after('second', 2),
  ]) {
    keeper.see(seen, next);
    seen = next;
  }
  const { runs, days } = keeper.credit;
  expect(runs.map(({ run, tokens }) => [run, tokens])).toEqual([
    ['first', 500],
    ['second', 200],
  ]);
  expect(days.map(({ tokens }) => tokens)).toEqual([700]);
});

test('a clock that is set forward and back forgets nothing of what a day has used', () => {
  const told: number[] = [];
  const keeper = new Keeper(
    () => {},
    ({ sentBytes }) => told.push(sentBytes),
  );
  let seen = INITIAL_STATE;
  const moves = (day: string, sentBytes: number): void => {
    const used = keeper.usedOn(day);
    const next = { ...seen, today: { ...used, sentBytes: used.sentBytes + sentBytes } };
    keeper.see(seen, next);
    seen = next;
  };
  moves('2026-11-27', 90);
  moves('2026-11-28', 7);
  expect(keeper.usedOn('2026-11-28').sentBytes).toBe(7);
  // What a day that has not come has used was used today.
  expect(keeper.usedOn('2026-11-27').sentBytes).toBe(97);
  moves('2026-11-27', 1);
  expect(keeper.usedOn('2026-11-28').sentBytes).toBe(0);
  expect(keeper.usedOn('2026-11-27').sentBytes).toBe(98);
  expect(told).toEqual([]);
});

test('a GPU that was lost, computed wrong or cost others something is checked anew; who left or came too late is not', () => {
  keepChecks('checks');
  expect(keptChecks()).toBe('checks');
  keepChecks(null);
  expect(keptChecks()).toBeNull();
  for (const reason of ['deviceLost', 'wrongGpu', 'faulty', 'convicted'] as const) expect(isInDoubt(reason)).toBe(true);
  for (const reason of ['internal', 'tooLate', 'serverFull', 'letGo'] as const) expect(isInDoubt(reason)).toBe(false);
});
