/** What a store knows of a run's time, also once steps were undone. */
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, it } from 'vitest';
import { stepsOf, timeUsed } from './runTime.ts';
import { storeOn } from './store.ts';

it('[CO101] shares outlast a roll-back, and the time that is used is that of the newest step and no less than any share', () => {
  const store = storeOn(new DatabaseSync(':memory:'));
  store.addRun('r', 'hash', '{}', 'zero', 0);
  const train = { steps: 2 ** 32 - 1, budget: { seconds: 10 } };
  const commit = (step: number, share: number): void => {
    const figures = { loss: 1, gradientNorm: 1, learningRate: 1, tokens: 8, seconds: 2, donors: 1, stages: 1 };
    store.commitStep('r', { step, share, ...figures, microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 }, []);
  };
  expect(timeUsed(store, 'r', train, 0)).toEqual({ usedMs: 0, shares: {} });
  expect(timeUsed(store, 'r', {}, 0)).toBeUndefined();
  for (const step of [0, 1, 2]) commit(step, step / 5);
  expect(store.steps('r').map(({ share }) => share)).toEqual([0, 0.2, 0.4]);
  expect(timeUsed(store, 'r', train, 1)).toEqual({ usedMs: 6_000, shares: { 1: 0.2, 2: 0.4 } });
  expect(stepsOf(store, 'r', train)).toBe(3 + 2);
  store.rollBack('r', 1);
  expect(timeUsed(store, 'r', train, 1)).toEqual({ usedMs: 4_000, shares: { 1: 0.2, 2: 0.4 } });
  commit(1, 0.2);
  commit(2, 0.4);
  commit(3, 0.85);
  expect(stepsOf(store, 'r', train)).toBe(4);
});
