import { describe, expect, test } from 'vitest';
import { chain, makespan, run, upTo } from '../testing/chain.ts';
import { barsOf, outcomeDocument, outcomeOf } from './outcome.ts';

describe('outcome', () => {
  test('the document: totals, then the timeline by start and peer', () => {
    expect(outcomeDocument(run(chain('1f1b', 2, 1, { link: { latencySeconds: 1 } })))).toEqual({
      makespanSeconds: 8,
      bubbleRatio: 1 - 6 / 16,
      peers: [
        { busySeconds: 3, idleSeconds: 5, peakInFlight: 1 },
        { busySeconds: 3, idleSeconds: 5, peakInFlight: 1 },
      ],
      timeline: [
        { peer: 0, action: '0F0', start: 0, end: 1 },
        { peer: 1, action: '1F0', start: 2, end: 3 },
        { peer: 1, action: '1B0', start: 3, end: 5 },
        { peer: 0, action: '0B0', start: 6, end: 8 },
      ],
    });
  });

  test('[SC14] peers are numbered along the first pipeline, whatever order they first work in', () => {
    const timeline = barsOf(run(chain('chimera', 4, 4)));
    expect(outcomeDocument(run(chain('chimera', 4, 4))).timeline.slice(0, 2)).toEqual([
      { peer: 0, action: '0F0', start: 0, end: 1 },
      { peer: 3, action: '0F2', start: 0, end: 1 },
    ]);
    for (const [index, bar] of timeline.entries()) {
      const previous = timeline[index - 1];
      if (previous)
        expect(previous.start < bar.start || (previous.start === bar.start && previous.peer < bar.peer)).toBe(true);
    }
  });

  test('[SI3] activations and gradients of one direction share it: the first one produced goes first', () => {
    // On two peers of two chunks both kinds go both ways; the brute force finds the same ends.
    const slow = { chunks: 2, link: { bytesPerSecond: 1 }, activationBytes: 4, gradientBytes: 4 };
    const free = { ...slow, gradientBytes: 0 };
    expect(makespan('interleaved', 2, 4, slow)).toBeGreaterThan(makespan('interleaved', 2, 4, free));
  });

  test('[SI3] the last entry of a link list joins the last peer and the first', () => {
    const hops = (latencies: readonly number[]) => ({ chunks: 2, link: latencies.map((l) => ({ latencySeconds: l })) });
    expect(makespan('breadth-first', 3, 1, hops([0, 0, 0]))).toBe(9);
    expect(makespan('breadth-first', 3, 1, hops([0, 0, 5]))).toBe(9 + 2 * 5);
    expect(makespan('breadth-first', 3, 1, hops([1, 0, 5]))).toBe(9 + 2 * 5 + 4 * 1);
    expect(makespan('1f1b', 3, 1, { link: [{ latencySeconds: 1 }, { latencySeconds: 10 }] })).toBe(9 + 22);
  });

  test('[SI3] a window limits each stream by the round trip, and not at all without a latency', () => {
    const link = { latencySeconds: 1, windowBytes: 10, streams: 1 };
    const seconds = (more: object) => makespan('1f1b', 2, 1, { link: { ...link, ...more }, activationBytes: 100 });
    expect(seconds({})).toBe(6 + 2 + 100 / 5);
    expect(seconds({ streams: 4 })).toBe(6 + 2 + 100 / 20);
    expect(seconds({ streams: 4, bytesPerSecond: 10 })).toBe(6 + 2 + 100 / 10);
    expect(seconds({ latencySeconds: 0 })).toBe(6);
  });

  test('[SI4] sums that differ in their last bits are one instant', () => {
    const tenths = upTo(8).map(() => ({ forwardSeconds: 0.1, backwardSeconds: 0.2 }));
    const { makespanSeconds } = run({ ...chain('eager', 8, 32), stages: tenths });
    expect(makespanSeconds).toBeCloseTo(11.7, 9);
  });

  test('the slow peer does better first than last under 1f1b', () => {
    const order = (...times: number[]) =>
      times.map((forwardSeconds) => ({ forwardSeconds, backwardSeconds: 2 * forwardSeconds }));
    expect(makespan('1f1b', 4, 8, { stages: order(2, 1, 1, 1) })).toBeLessThan(
      makespan('1f1b', 4, 8, { stages: order(1, 1, 1, 2) }),
    );
  });

  test('times that add up to no number', () => {
    const outcome = outcomeOf(chain('1f1b', 1, 4, { stages: [{ forwardSeconds: 1e308, backwardSeconds: 1e308 }] }));
    expect(outcome).toEqual({ ok: false, reason: 'the times are too long to add up' });
  });

  test('times that add up to no number while several share a line', () => {
    const second = { forwardSeconds: 1, backwardSeconds: 1 };
    const problem = chain('1f1b', 2, 8, {
      ...{ stages: [{ forwardSeconds: 1e308, backwardSeconds: 2 }, second], pipelines: 4, sharedLinks: [0] },
      ...{ sharing: 'turns', link: [{ bytesPerSecond: 4e6 }], activationBytes: 4e6, gradientBytes: 4e6 },
    });
    expect(outcomeOf(problem)).toEqual({ ok: false, reason: 'the times are too long to add up' });
  });
});
