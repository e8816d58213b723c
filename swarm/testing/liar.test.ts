import fc from 'fast-check';
import { expect, it } from 'vitest';
import { playLiar } from './liar.ts';

/** `npm test -- --long`. */
const RUNS = process.env.SHOAL_LONG === '1' ? 3_000 : 150;

it('[CO12] [CO32] [CO51] [CO53] [CO55] one liar among honest donors: the run comes to its end, and nobody honest is refused twice', {
  timeout: 600_000,
}, () => {
  const sum = { plays: 0, events: 0, lies: 0, refusedHonest: 0, visits: 0 };
  fc.assert(
    fc.property(fc.integer({ min: 0 }), (seed) => {
      const { events, lies, refusedHonest, visits } = playLiar(seed);
      sum.plays++;
      sum.events += events;
      sum.lies += lies;
      sum.refusedHonest += refusedHonest;
      sum.visits += visits;
    }),
    { seed: 1, numRuns: RUNS, endOnFailure: true },
  );
  console.info(`a liar among honest donors: ${JSON.stringify(sum)}`);
  expect(sum.visits).toBeGreaterThan(sum.plays);
  expect(sum.lies).toBeGreaterThan(5 * sum.plays);
});
