import { expect, test } from 'vitest';
import { cutElements, cutUpTo } from './shardCuts.ts';

const sparse = (chunk: number) => ({ top: 8, chunk, feedback: 0.95 });
const tensors = [
  { offset: 0, elements: 100 },
  { offset: 100, elements: 1_000 },
] as const;

test('[PL22] a cut is where a sparse run and a block of int8 codes begin, counted from each tensor’s beginning', () => {
  expect(cutElements(undefined)).toBe(1);
  expect(cutElements({ exchange: 'f32', publish: 'f32' })).toBe(1);
  expect(cutElements({ exchange: 'f32', publish: 'int8' })).toBe(64);
  expect(cutElements({ exchange: sparse(48), publish: 'f32' })).toBe(48);
  expect(cutElements({ exchange: sparse(48), publish: 'int8' })).toBe(192);
  const upTo = (place: number) => cutUpTo({ tensors } as never, { exchange: sparse(48), publish: 'f32' }, place);
  expect([0, 47, 48, 99, 100, 147, 148, 1_059, 1_060, 1_099, 1_100].map(upTo)).toEqual([
    ...[0, 0, 48, 96, 100, 100, 148, 1_012, 1_060, 1_060, 1_100],
  ]);
});
