import { expect, test } from 'vitest';
import { peerId, totalOf } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { arrivalBytes, sizesOf } from './partners.ts';

const model = outlineModel(2, false);
const sizes = sizesOf(model, { train: { sequenceLength: 5 }, wire: 'f32' } as Parameters<typeof sizesOf>[1]);
const split = (...names: string[]) => equalSplit(model, 4, names.map(peerId), { microBatches: 2 });
const elementsOf = (...blocks: string[]): number =>
  totalOf(model.blocks, ({ name, elements }) => (blocks.includes(name) ? elements : 0));

test('a newcomer that takes over the last layer and the head is sent both, with two moments each', () => {
  const source = { from: 'peers', epoch: 1, plan: split('a') } as const;
  expect(arrivalBytes(sizes, split('a', 'b'), source)).toBe(3 * 4 * elementsOf('layer.1', 'head'));
});

test('who goes hands over what nobody else has', () => {
  const source = { from: 'peers', epoch: 1, plan: split('a', 'b') } as const;
  expect(arrivalBytes(sizes, split('a'), source)).toBe(3 * 4 * elementsOf('layer.1', 'head'));
});

test('out of a checkpoint comes the whole state; kept by two stages of one donor each, nothing moves', () => {
  const all = elementsOf(...model.blocks.map(({ name }) => name));
  expect(arrivalBytes(sizes, split('a', 'b'), { from: 'checkpoint', step: 3 })).toBe(3 * 4 * all);
  // Moments are zero there, and are not sent.
  expect(arrivalBytes(sizes, split('a', 'b'), { from: 'checkpoint', step: 0 })).toBe(4 * all);
  expect(arrivalBytes(sizes, split('a', 'b'), { from: 'kept' })).toBe(0);
});
