import { describe, expect, test } from 'vitest';
import { chain, makespan, run, upTo } from '../testing/chain.ts';

const inFlight = (...of: Parameters<typeof chain>): number[] =>
  run(chain(...of)).peers.map(({ peakInFlight }) => peakInFlight);

describe('closed forms, F=1, B=2', () => {
  test.each([
    [4, 4, 21],
    [4, 8, 33],
    [8, 8, 45],
    [8, 32, 117],
  ])('gpipe, 1f1b and eager of %i peers, %i micro-batches take %i', (p, m, seconds) => {
    for (const schedule of ['gpipe', '1f1b', 'eager'] as const) {
      const outcome = run(chain(schedule, p, m));
      expect(outcome.makespanSeconds).toBe(seconds);
      expect(outcome.bubbleRatio).toBeCloseTo((p - 1) / (m + p - 1), 12);
    }
    expect(inFlight('gpipe', p, m)).toEqual(upTo(p).map(() => m));
    expect(inFlight('1f1b', p, m)).toEqual(upTo(p).map((s) => Math.min(m, p - s)));
    expect(inFlight('eager', p, m)).toEqual(upTo(p).map((s) => Math.min(m, p - s)));
  });

  test.each([
    [4, 4, 16.5, 14.25],
    [4, 8, 28.5, 26.25],
    [8, 8, 34.5, 29.25],
    [8, 32, 106.5, 101.25],
  ])('[SC13] interleaved and breadth-first, %i peers, %i micro-batches: chunks 2 %d, 4 %d', (p, m, two, four) => {
    for (const schedule of ['interleaved', 'breadth-first'] as const) {
      expect(makespan(schedule, p, m, { chunks: 2 })).toBe(two);
      expect(makespan(schedule, p, m, { chunks: 4 })).toBe(four);
      for (const chunks of [2, 4])
        expect(run(chain(schedule, p, m, { chunks })).bubbleRatio).toBeCloseTo((p - 1) / (m * chunks + p - 1), 12);
    }
    expect(inFlight('breadth-first', p, m, { chunks: 2 })).toEqual(upTo(p).map(() => 2 * m));
  });

  test('[SC13] any number of chunks, peers and groups: m(F+B) + (p−1)(F+B)/v', () => {
    for (let p = 1; p <= 6; p++)
      for (let v = 1; v <= 5; v++)
        for (const m of [p, 2 * p, 3 * p])
          for (const schedule of ['interleaved', 'breadth-first'] as const)
            expect(makespan(schedule, p, m, { chunks: v }), `${schedule} ${p} ${m} ${v}`).toBeCloseTo(
              3 * m + (3 * (p - 1)) / v,
              9,
            );
  });

  test('[SC14] chimera: 3m + (p/f − 2)(1 + m/p), and with equal slots 2m + p/f − 2', () => {
    for (let p = 2; p <= 32; p += 2)
      for (let f = 1; f <= p / 2; f++)
        for (const m of (p / 2) % f === 0 ? [p, (p > 12 ? 2 : 5) * p] : []) {
          const given = chain('chimera', p, m, { pairs: f });
          const name = `${p} peers, ${m} micro-batches, ${f} pairs`;
          expect(run(given).makespanSeconds, name).toBe(3 * m + (p / f - 2) * (1 + m / p));
          const equal = { ...given, stages: given.stages.map(() => ({ forwardSeconds: 1, backwardSeconds: 1 })) };
          expect(run(equal).makespanSeconds, name).toBe(2 * m + p / f - 2);
          // Balanced: between p − p/2f + 1 and p in a block, where 1f1b has 1 to p.
          const peaks = run(equal).peers.map(({ peakInFlight }) => peakInFlight);
          if (m === p) expect(Math.min(...peaks), name).toBeGreaterThanOrEqual(p - p / (2 * f) + 1);
          if (m === p) expect(Math.max(...peaks), name).toBeLessThanOrEqual(p);
        }
    expect([4, 8, 16].map((m) => makespan('chimera', 4, m))).toEqual([16, 30, 58]);
  });

  test('[SC14] 1f1b overtakes chimera where micro-batches are many more than peers', () => {
    expect(makespan('chimera', 4, 8)).toBeLessThan(makespan('1f1b', 4, 8));
    expect(makespan('chimera', 4, 12)).toBeLessThan(makespan('1f1b', 4, 12));
    expect(makespan('chimera', 4, 16)).toBeGreaterThan(makespan('1f1b', 4, 16));
  });

  test.each([
    [2, 8, [27, 31, 35, 43], [27, 28, 29, 33]],
    [4, 16, [57, 71, 85, 113], [57, 60, 63, 75]],
  ])(
    '[SC12] %i peers, %i micro-batches, hops of 0, ½, 1 and 2 s: plain and overlapping warm-up',
    (p, m, plain, overlap) => {
      const far = (latencySeconds: number) => ({ link: { latencySeconds } });
      const hops = [0, 0.5, 1, 2];
      expect(hops.map((hop) => makespan('1f1b', p, m, far(hop)))).toEqual(plain);
      expect(hops.map((hop) => makespan('1f1b', p, m, { ...far(hop), warmup: 'overlap' }))).toEqual(overlap);
      expect(hops.map((hop) => makespan('eager', p, m, { ...far(hop), warmup: 'overlap' }))).toEqual(overlap);
      expect(inFlight('1f1b', p, m, { warmup: 'overlap' })).toEqual(upTo(p).map((s) => Math.min(m, 2 * (p - s) - 1)));
    },
  );

  test('[SC15] eager takes as long as 1f1b where all hops are equal', () => {
    for (const latencySeconds of [0, 0.5, 1, 2, 3])
      for (const warmup of ['normal', 'overlap'])
        for (const [p, m] of [
          [2, 8],
          [4, 16],
          [8, 32],
        ] as const) {
          const more = { warmup, link: { latencySeconds } };
          expect(makespan('eager', p, m, more), JSON.stringify([p, m, more])).toBe(makespan('1f1b', p, m, more));
        }
  });

  test('[SC16] varuna, recompute as long as a forward: 24, 27 and 39', () => {
    expect([4, 5, 8].map((m) => makespan('varuna', 4, m))).toEqual([24, 27, 39]);
    expect(inFlight('varuna', 4, 8)).toEqual([8, 6, 3, 1]);
    expect(inFlight('varuna', 4, 8, { maxInFlight: 5 })).toEqual([5, 5, 3, 1]);
    // Below the bound nothing is limited.
    expect(inFlight('varuna', 4, 8, { maxInFlight: 1 })).toEqual([4, 3, 2, 1]);
  });
});
