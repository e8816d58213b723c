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
  for (const found of [1_000, 40_000, 79_000]) expect(work(64, 500, found)).toBe(80_000);
});

test('[CL12] few peers are searched three times as long', () => {
  for (const peers of [2, 16]) expect(work(peers, 500, 1_000)).toBe(240_000);
  expect(work(17, 500, 1_000)).toBe(80_000);
});

test('[CL12] among more it ends when nothing better has come for twice as long as the best took, or after so much for each', () => {
  expect(work(1_000, 1_000, 2_000)).toBe(313_000); // a quarter of 80,000 for every 64 peers
  expect(work(1_000, 1_000, 200_000)).toBe(600_000);
  expect(work(1_000, 1_000, 900_000)).toBe(313_000); // it is over by then
  expect(work(128, 60_000, 150_000)).toBe(160_000);
});
