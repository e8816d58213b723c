import { expect, test } from 'vitest';
import { quickSearch } from './quickSearch.ts';
import type { Candidate } from './search.ts';

/** Only that they are others. */
const plans = [{}, {}] as unknown as readonly [Candidate, Candidate];

/** Steps of a thousand actions until it ends, where plans are found after so many. */
function work(peers: number, first: number, second: number): number {
  const goesOn = quickSearch(peers);
  for (let done = 0; ; done += 1_000)
    if (!goesOn({ best: done >= second ? plans[1] : done >= first ? plans[0] : null, work: done })) return done;
}

test.each([
  [[2, 16], 240_000],
  [[17, 64], 50_000],
])('[CL12] a quick search for %j peers takes so much work, whatever it finds', (counts, most) => {
  for (const peers of counts)
    for (const found of [1_000, 40_000, most - 1_000]) expect(work(peers, 500, found)).toBe(most);
});

test('[CL12] among more it ends when nothing better has come for twice as long as the best took, or after so much for each', () => {
  expect(work(1_000, 1_000, 2_000)).toBe(892_000); // half of 50,000 (1000 / 64)^1.3
  expect(work(1_000, 1_000, 400_000)).toBe(1_200_000);
  expect(work(1_000, 1_000, 2_000_000)).toBe(892_000); // it is over by then
  expect(work(128, 20_000, 100_000)).toBe(62_000);
  expect(work(128, 40_000, 100_000)).toBe(124_000); // 50,000 (128 / 64)^1.3
});
