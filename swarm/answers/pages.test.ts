/** Pages of keys and values: no row belongs to two conversations, whoever comes, grows and goes. */
import { expect, test } from 'vitest';
import { arrayOf, below, seededRandom } from '../base.ts';
import { PAGE_ROWS, Pages, placeOfPosition, UNUSED_PAGE } from './pages.ts';

test.each([1, 2, 3])('rows have one owner, and stand where they were (seed %i)', (seed) => {
  const random = seededRandom(seed);
  const pages = new Pages(9);
  const known = new Map<string, number[]>();
  for (let round = 0; round < 400; round++) {
    const name = `talk ${below(random, 6)}`;
    if (random() < 0.1) {
      pages.end(name);
      known.delete(name);
      continue;
    }
    const before = pages.lengthOf(name);
    const rows = 1 + below(random, 20);
    const own = pages.extend(name, rows);
    for (const other of [...known.keys()]) if (pages.lengthOf(other) === 0) known.delete(other);
    if (own === null) {
      expect(Math.ceil((before + rows) / PAGE_ROWS)).toBeGreaterThan(8);
      pages.end(name);
      known.delete(name);
      continue;
    }
    const places = arrayOf(before + rows, (position) => placeOfPosition(own, position));
    expect(places.slice(0, before)).toEqual(known.get(name)?.slice(0, before) ?? []);
    known.set(name, places);
    const all = [...known.values()].flat();
    expect(new Set(all).size).toBe(all.length);
    expect(all.some((place) => Math.floor(place / PAGE_ROWS) === UNUSED_PAGE)).toBe(false);
    expect(Math.max(...all)).toBeLessThan(9 * PAGE_ROWS);
  }
});

test('the one that was used longest ago makes way, and nobody of the same piece', () => {
  const pages = new Pages(4);
  for (const name of ['a', 'b', 'c']) pages.extend(name, PAGE_ROWS);
  pages.extend('a', 0);
  pages.extend('d', 1);
  expect(['a', 'b', 'c', 'd'].map((name) => pages.lengthOf(name))).toEqual([PAGE_ROWS, 0, PAGE_ROWS, 1]);
  expect(pages.extend('e', 1, new Set(['a', 'c', 'd']))).toBeNull();
});
