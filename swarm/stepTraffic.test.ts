import { expect, test } from 'vitest';
import { peerId } from './base.ts';
import { equalSplit } from './planner/equalSplit.ts';
import { outlineModel } from './randomPlan.ts';
import { stepTraffic } from './stepTraffic.ts';

const peers = (count: number) => Array.from({ length: count }, (_, place) => peerId(`p${place}`));
const BATCH = { sequence: 5, wire: 'f32' } as const;

test('two stages of one donor: the stream there and back, nothing of the state', () => {
  const plan = equalSplit(outlineModel(2, false), 6, peers(2), { stages: 2 });
  // 6 samples of 5 positions, 4 wide, 4 bytes each.
  expect(stepTraffic(outlineModel(2, false), plan, BATCH)).toEqual({
    ...{ activation: 6 * 5 * 4 * 4, gradient: 6 * 5 * 4 * 4, slice: 0, values: 0 },
  });
  expect(stepTraffic(outlineModel(2, false), plan, { ...BATCH, wire: 'f16' }).activation).toBe(6 * 5 * 4 * 2);
});

test('a tied table of 40 elements goes to its primary as a gradient, and back as values', () => {
  const model = outlineModel(2, true);
  const plan = equalSplit(model, 6, peers(2), { stages: 2 });
  expect(stepTraffic(model, plan, BATCH)).toMatchObject({ slice: 40 * 4, values: 40 * 4 });
});

test('two lanes send each other the half of every block that is not theirs', () => {
  const model = outlineModel(1, false);
  const plan = equalSplit(model, 6, peers(2), { stages: 1 });
  const elements = model.blocks.reduce((sum, block) => sum + block.elements, 0);
  expect(stepTraffic(model, plan, BATCH)).toEqual({
    ...{ activation: 0, gradient: 0, slice: elements * 4, values: elements * 4 },
  });
});
