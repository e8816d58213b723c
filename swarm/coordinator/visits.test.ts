import { expect, test } from 'vitest';
import { comeOneByOne, NO_VISITS, nextMayComeMs, withCost, withVisit } from './visits.ts';

test('what a going cost is paid for four times over, however long that one was here, and counts as no short visit', () => {
  const after = withCost(NO_VISITS, 5_000, 100_000);
  expect([nextMayComeMs(after), after.count]).toEqual([120_000, 0]);
  expect([comeOneByOne(after, 119_999), comeOneByOne(after, 120_000)]).toEqual([true, false]);
  const short = withVisit(NO_VISITS, 5_000, 100_000);
  expect([nextMayComeMs(short), short.count]).toEqual([120_000, 1]);
});
