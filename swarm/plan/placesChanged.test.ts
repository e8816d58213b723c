import { expect, test } from 'vitest';
import { donors, outlineModel } from '../testing/randomPlan.ts';
import { gatheredPlan, keeperPlan, layeredPlan, mainMemoryPlan, type StatePlan } from '../testing/statePlans.ts';
import { placesChanged } from './placesChanged.ts';

const model = outlineModel(4, true);
const made = (make: StatePlan) => make(model, 8, donors(4));

test.each<[StatePlan, StatePlan, string | null]>([
  [keeperPlan, gatheredPlan, 'layers are gathered from now on'],
  [gatheredPlan, keeperPlan, 'layers are gathered no longer, but kept whole'],
  [gatheredPlan, layeredPlan, 'layers are gathered once a pass from now on'],
  [layeredPlan, gatheredPlan, 'layers are gathered for each micro-batch from now on'],
  [keeperPlan, mainMemoryPlan, 'state lies in main memory from now on'],
  [mainMemoryPlan, keeperPlan, 'state lies in main memory no longer'],
  [mainMemoryPlan, layeredPlan, 'layers are gathered from now on, state lies in main memory no longer'],
  [keeperPlan, keeperPlan, null],
  [layeredPlan, layeredPlan, null],
])('[CO99] says what changes, case %#', (before, after, text) => {
  expect(placesChanged(made(before), made(after))).toBe(text);
});
