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

test('[CL12] a quick search takes so much work for up to 64 peers, whatever it finds', () => {
  for (const peers of [2, 16, 17, 64])
    for (const found of [1_000, 40_000, 239_000]) expect(work(peers, 500, found)).toBe(240_000);
});

test('[CL12] among more it ends when nothing better has come for twice as long as the best took, or after so much for each', () => {
  expect(work(1_000, 1_000, 2_000)).toBe(938_000); // a quarter of 240,000 for every 64 peers
  expect(work(1_000, 1_000, 400_000)).toBe(1_200_000);
  expect(work(1_000, 1_000, 2_000_000)).toBe(938_000); // it is over by then
  expect(work(128, 180_000, 300_000)).toBe(480_000);
});
