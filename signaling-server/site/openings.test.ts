/** Pipes that one process opens at another, of which the first message may come again at any time. */

import { expect, test } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { OthersOpenings, OwnOpenings } from './openings.ts';

test('a pipe is opened once, however often and late its opening comes again', () => {
  const others = new OthersOpenings();
  expect([0, 2, 1].map((number) => others.isFirst(number, 0))).toEqual([true, true, true]);
  expect([0, 1, 2].map((number) => others.isFirst(number, 0))).toEqual([false, false, false]);
  // From here on its opener opens none below any more: they are not remembered, and not taken either.
  expect(others.isFirst(3, 3)).toBe(true);
  expect([0, 1, 2, 3].map((number) => others.isFirst(number, 0))).toEqual([false, false, false, false]);
});

test('an opener says from which pipe on the other end may not have heard of them', () => {
  const own = new OwnOpenings();
  const pipes = arrayOf(3, () => ({ isHeard: false }));
  for (const [number, pipe] of pipes.entries()) own.add(number, pipe);
  const heard = (number: number): number => {
    Object.assign(pipes[number] ?? {}, { isHeard: true });
    return own.oldest(3);
  };
  expect([own.oldest(3), heard(1), heard(0), heard(2)]).toEqual([0, 0, 2, 3]);
});
