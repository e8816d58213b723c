import { expect, test } from 'vitest';
import { at, got, seededRandom } from './base.ts';

test('an element is read, and one outside is a broken invariant that names the index and the length', () => {
  expect([at(['a', 'b'], 1), at([0, null], 1), at(new Float32Array([0, 0.5]), 1)]).toEqual(['b', null, 0.5]);
  for (const index of [-1, 2, 0.5, Number.NaN])
    expect(() => at([1, 2], index)).toThrow(`invariant violated: element ${index} of 2`);
});

test('a key that the map lacks is a broken invariant that names it', () => {
  const counts = new Map([['a', 0]]);
  expect(got(counts, 'a')).toBe(0);
  expect(() => got(counts, 'b')).toThrow('invariant violated: nothing for b among 1');
});

test('a seed counts whole, above 2^32 too', () => {
  const seeds = [7, 7 + 2 ** 32, 7 + 2 ** 33, 7 + 2 ** 52, Number.MAX_SAFE_INTEGER, 2 ** 32 - 1];
  expect(new Set(seeds.map((seed) => seededRandom(seed)())).size).toBe(seeds.length);
});
