import { describe, expect, test } from 'vitest';
import { total } from '../base.ts';
import { chain, makespan, run } from '../testing/chain.ts';
import { barsOf } from './outcome.ts';

describe('jitter', () => {
  const jitter = (seed: number) => ({ jitter: { computeSeconds: 0.3, linkSeconds: 0.5, seed } });

  test('the same seed gives the same timeline, another seed another', () => {
    for (const schedule of ['1f1b', 'eager', 'varuna'] as const) {
      expect(run(chain(schedule, 4, 8, jitter(7)))).toEqual(run(chain(schedule, 4, 8, jitter(7))));
      expect(makespan(schedule, 4, 8, jitter(7))).not.toBe(makespan(schedule, 4, 8, jitter(8)));
    }
  });

  test('it only ever adds, to actions and to messages, as much as a half-normal variate does', () => {
    const late = run(chain('gpipe', 1, 4000, { jitter: { computeSeconds: 0.3 } }));
    const extra = barsOf(late).map(({ action, start, end }) => end - start - (action.op === 'F' ? 1 : 2));
    expect(Math.min(...extra)).toBeGreaterThanOrEqual(-1e-9);
    // The mean of |N(0, 1)| is √(2/π).
    const mean = total(extra) / extra.length;
    expect(mean / 0.3).toBeCloseTo(Math.sqrt(2 / Math.PI), 1);
    const messages = run(chain('1f1b', 2, 1, { jitter: { linkSeconds: 0.3 } }));
    expect(messages.peers.map(({ busySeconds }) => busySeconds)).toEqual([3, expect.closeTo(3, 9)]);
    expect(messages.makespanSeconds).toBeGreaterThan(6);
  });
});
