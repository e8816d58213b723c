import { DatabaseSync } from '@photostructure/sqlite';
import { expect, it } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { storeOn } from '../store/store.ts';
import { Today } from './today.ts';

const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];

it('a place counts committed steps of this day alone, and takes back what was given up', () => {
  const store = storeOn(new DatabaseSync(':memory:'));
  store.addRun('r', 'hash', '{}', 'zero', 0);
  let changed = (): void => {};
  const onChange = (listener: () => void) => {
    changed = listener;
    return () => {};
  };
  const run = { name: 'r', committedSteps: 0, onChange };
  let day = '2026-11-23';
  const commit = (tokens: Readonly<Record<string, number>>): void => {
    const ledger = Object.entries(tokens).map(([peer, carried]) => ({ peer: peerId(peer), tokens: carried }));
    const figures = { loss: 1, gradientNorm: 1, learningRate: 1, tokens: 8, seconds: 1, donors: 2, stages: 1 };
    const record = { step: run.committedSteps, ...figures, microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 };
    store.commitStep('r', record, ledger);
    run.committedSteps += 1;
    changed();
  };
  commit({ a: 100 });
  const today = new Today(run, store, () => day);
  expect(today.placeOf(A)).toEqual({ place: null, donors: 0, tokens: 0 });
  commit({ a: 2 / 3, b: 6 });
  commit({ a: 4 / 3, b: 6, c: 2 });
  expect([A, B, C].map((peer) => today.placeOf(peer))).toEqual([
    { place: 2, donors: 3, tokens: 2 },
    { place: 1, donors: 3, tokens: 12 },
    { place: 2, donors: 3, tokens: 2 },
  ]);
  store.rollBack('r', 2);
  run.committedSteps = 2;
  changed();
  expect(today.placeOf(C)).toEqual({ place: null, donors: 2, tokens: 0 });
  expect(today.placeOf(A).tokens).toBe(0.667);
  // Back to before this morning: what is done again is of today.
  store.rollBack('r', 0);
  run.committedSteps = 0;
  changed();
  commit({ c: 8 });
  expect(today.placeOf(C)).toEqual({ place: 1, donors: 1, tokens: 8 });
  day = '2026-11-24';
  expect(today.placeOf(C)).toEqual({ place: null, donors: 0, tokens: 0 });
  commit({ a: 8 });
  expect(today.placeOf(A)).toEqual({ place: 1, donors: 1, tokens: 8 });
});
