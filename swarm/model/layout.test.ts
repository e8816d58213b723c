import { expect, test } from 'vitest';
import { arena, placeOf, segmentsIn } from './layout.ts';
import { blockOf } from './model.ts';

const rows = blockOf('layer.0', [
  { name: 'norm', shape: [3], initial: 'ones' },
  { name: 'q', shape: [5, 3], initial: 'normal' },
  { name: 'k', shape: [2, 3], initial: 'normal', joined: true },
  { name: 'o', shape: [3, 5], initial: 'normal' },
]);

test('a tensor begins at a multiple of 64 floats, a joined one right behind the one before', () => {
  const whole = arena(rows, [[0, rows.elements]]);
  expect(whole.segments.map(({ tensor, at, length }) => [tensor.name, at, length])).toEqual([
    ['norm', 0, 3],
    ['q', 64, 15],
    ['k', 79, 6],
    ['o', 128, 15],
  ]);
  expect(whole.floats).toBe(192);
  expect(placeOf(whole, ['q', 'k'])).toEqual({ at: 64, elements: 21 });
  expect(placeOf(whole, ['o'])).toEqual({ at: 128, elements: 15 });
  expect(() => placeOf(whole, ['norm', 'q'])).toThrow('q is not joined');
});

test('[MO2] a shard may begin anywhere in joined tensors: each element has one place', () => {
  for (let from = 0; from < rows.elements; from++) {
    const part = arena(rows, [[from, rows.elements]]);
    const segments = segmentsIn(part, [from, rows.elements]);
    expect(segments.reduce((sum, { length }) => sum + length, 0)).toBe(rows.elements - from);
    for (const [i, { at }] of segments.entries()) {
      const before = segments[i - 1];
      expect(at).toBeGreaterThanOrEqual(before ? before.at + before.length : 0);
    }
    expect(part.segments[0]?.at).toBe(0);
  }
});
