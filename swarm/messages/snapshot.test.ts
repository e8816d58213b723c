import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { forDonors, type Snapshot } from './snapshot.ts';

const RUN: Omit<Snapshot, 'donors'> = {
  ...{ run: 'r', phase: 'training', sentence: '', generation: 0, epoch: 1, committedSteps: 3, steps: 9 },
  ...{ loss: null, evaluationLoss: null, tokensPerSecond: null },
};
const ADAPTER = { vendor: '', architecture: '', description: '', software: true, browser: '' };

const donor = (name: string, more: Partial<Snapshot['donors'][number]> = {}): Snapshot['donors'][number] => ({
  ...{ peer: peerId(name), adapter: ADAPTER, state: 'spare', stages: [], tokens: 0, ...more },
});

test('a crowd that waits is named up to 200 and then counted; who computes or has computed is always named', () => {
  const crowd = Array.from({ length: 5_000 }, (_, number) => donor(`waits${number}`));
  const last = [donor('computes', { state: 'computing' }), donor('rests', { state: 'paused', tokens: 7 })];
  const { donors, others } = forDonors({ ...RUN, donors: [...crowd, ...last] });
  expect(donors).toEqual([...crowd.slice(0, 200), ...last]);
  expect(others).toBe(4_800);
  const few = { ...RUN, donors: [...crowd.slice(0, 200), ...last] };
  expect(forDonors(few)).toBe(few);
});
