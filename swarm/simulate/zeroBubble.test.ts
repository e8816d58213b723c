/** What a backward split in two would gain for stages as unequal as those of donors (zero bubble): SEEDS.md says the figures. */
import { expect, test } from 'vitest';
import { seededRandom, total } from '../base.ts';
import { makespan, upTo } from '../testing/chain.ts';
import { zeroBubbleLeast, zeroBubbleSeconds } from '../testing/zeroBubble.ts';

const SEEDS = 20;
const PEERS = 4;
const percent = (ratios: readonly number[]): number => Math.round(1000 * (total(ratios) / ratios.length - 1)) / 10;

// Forwards of 1 s to so many, backwards twice as long. Without hops no split order whatever gains more than the last figure.
test.each([
  [8, 0, 1.5, 14.3, -7.1, -0.9],
  [8, 0, 3, 12.4, -3.8, -0.7],
  [16, 0, 1.5, 8, -3.6, -0.2],
  [16, 0, 3, 6.6, -1.9, -0.4],
  [8, 0.5, 1.5, 17.7, 3.3, 18.9],
  [8, 0.5, 3, 13.3, 0.5, 8.1],
  [16, 0.5, 1.5, 14, 1.2, 10],
  [16, 0.5, 3, 7.8, -0.1, 3.9],
])(
  'four stages, %i micro-batches, hops of %d s, forwards of 1 to %d s: %d %% over 1f1b, %d over the best order, %d at most',
  (microBatches, hop, most, ...expected) => {
    const times = upTo(SEEDS).map((seed) => {
      const random = seededRandom(1 + seed);
      const forwards = upTo(PEERS).map(() => 1 + random() * (most - 1));
      const stages = forwards.map((forwardSeconds) => ({ forwardSeconds, backwardSeconds: 2 * forwardSeconds }));
      const more = { stages, link: { latencySeconds: hop } };
      const plain = makespan('1f1b', PEERS, microBatches, more);
      const best = Math.min(
        plain,
        makespan('1f1b', PEERS, microBatches, { ...more, warmup: 'overlap' }),
        ...[2, 4].map((chunks) => makespan('interleaved', PEERS, microBatches, { ...more, chunks })),
      );
      const split = zeroBubbleSeconds(forwards, microBatches, hop);
      return [plain / split, best / split, best / zeroBubbleLeast(forwards, microBatches, hop)] as const;
    });
    expect([0, 1, 2].map((which) => percent(times.map((all) => all[which] ?? Number.NaN)))).toEqual(expected);
  },
);
