/** Names of donors: the same words at each visit, and never the same name twice. */
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, test } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { storeOn } from '../store/store.ts';
import { donorNames } from './donorIds.ts';

test('a key has its two words at every visit, to every run, and after a restart of the server', () => {
  const store = storeOn(new DatabaseSync(':memory:'));
  const nameOf = donorNames(store, 'a');
  const first = nameOf('one key');
  expect(first).toMatch(/^[a-z]{2,8}-[a-z]{2,8}$/);
  expect([nameOf('one key'), nameOf('one key')]).toEqual([`${first}-2`, `${first}-3`]);
  expect(donorNames(store, 'a')('one key')).toBe(`${first}-4`);
  expect(donorNames(store, 'b')('one key')).toBe(first);
  expect(donorNames(storeOn(new DatabaseSync(':memory:')), 'a')('one key')).not.toBe(first);
});

test('of thousands of donors no two have one name, whether their browsers remember a key or not', () => {
  const nameOf = donorNames(storeOn(new DatabaseSync(':memory:')), 'a');
  const names = arrayOf(4_000, (donor) => nameOf(donor % 2 === 0 ? `key ${donor}` : undefined));
  expect(new Set(names).size).toBe(4_000);
});
