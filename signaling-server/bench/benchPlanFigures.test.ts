/** What several rounds of `shoal bench plan` come to. */
import { expect, test } from 'vitest';
import { type Measured, overRounds } from './benchPlanFigures.ts';

const measured = (name: string, medianSeconds: number, predictedSeconds: number, machine: number): Measured => ({
  ...{ name, medianSeconds, predictedSeconds, machine: [machine, machine] },
  ...{ plan: '', ratio: 1, knownRatio: 1, tokensPerSecond: 1, bytes: 0, steady: true, attempts: 1 },
});

test('each plan beside the first one of the same round', () => {
  const results = [
    ...[measured('equal+0', 2, 1, 1), measured('equal+1', 3, 1.25, 1.5)],
    ...[measured('equal+0', 4, 1, 2), measured('equal+1', 5, 1.25, 2.5)],
    ...[measured('equal+0', 10, 1, 1), measured('equal+1', 11, 1.25, 0.5)],
  ];
  expect(overRounds(results, 3)).toEqual([
    { name: 'equal+0', medianSeconds: 4, overFirst: [1, 1, 1], predictedOverFirst: 1, machine: [1, 2] },
    { name: 'equal+1', medianSeconds: 5, overFirst: [1.25, 1.1, 1.5], predictedOverFirst: 1.25, machine: [0.5, 2.5] },
  ]);
});
