import { describe, expect, it } from 'vitest';
import { arrayOf, peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { recomputing } from '../schedule/recompute.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { admittedProfile, type PeerProfile } from './peerProfile.ts';
import { corrected, type Done, typicalWork, withSpans, workDone } from './spans.ts';

const model = outlineModel(4, false);
const batch = { samples: 4, sequence: 4 };
const [A, B] = [peerId('a'), peerId('b')];
const plan: Plan = equalSplit(model, 4, [A, B], { microBatches: 2 });
const span = (action: string, start: number, end: number) => ({ action, start, end });
const inner = { first: false, last: false, layers: 2 };

const done = (seconds: number, samples = 2): Done => ({ op: 'F', shape: inner, recomputed: 0, samples, seconds });

describe('spans of a report', () => {
  it('last from the end of the one before, as they wait in the GPU’s queue', () => {
    const spans = [span('0F0', 10, 13), span('0F1', 10.5, 15), span('0B0', 20, 21)];
    const shape = { first: true, last: false, layers: 2 };
    // The forwards took 3 and 2.
    expect(workDone(plan, A, spans)).toEqual([
      { op: 'F', shape, recomputed: 0, samples: 2, seconds: 2.5 },
      { op: 'F', shape, recomputed: 0, samples: 2, seconds: 2.5 },
      { op: 'B', shape, recomputed: 0, samples: 2, seconds: 1 },
    ]);
  });

  it('that a browser tells late, several at once, count as their mean', () => {
    const four = equalSplit(model, 8, [A], { microBatches: 4 });
    // Firefox on llvmpipe: four forwards in 0.104 s, four backwards in 0.17.
    const ends = { F: [0.029, 0.103, 0.104, 0.104], B: [0.273, 0.273, 0.273, 0.274] };
    const spans = (['F', 'B'] as const).flatMap((op) =>
      ends[op].map((end, i) => span(`0${op}${i}`, op === 'F' ? 0.001 * i : 0.1 + 0.001 * i, end)),
    );
    const seconds = workDone(four, A, spans).map((work) => work.seconds);
    expect(seconds).toHaveLength(8);
    for (const [i, one] of seconds.entries()) expect(one).toBeCloseTo(i < 4 ? 0.104 / 4 : 0.17 / 4, 9);
  });

  it('at a share of the GPU’s time last as long as the donor takes them to last alone', () => {
    const spans = [{ ...span('0F0', 10, 13), aloneSeconds: 1.5 }, span('0F1', 13, 15)];
    expect(workDone(plan, A, spans).map(({ seconds }) => seconds)).toEqual([1.5, 2]);
  });

  it('of a recompute are none of the backward, which computes all layers but one again', () => {
    const firstTwo = plan.stages.flatMap(({ layers: [from] }) => [from, from + 1]);
    const [work] = workDone(recomputing(plan, firstTwo), A, [span('0R0', 10, 12), span('0B0', 11, 15)]);
    expect(work).toEqual({
      op: 'B',
      shape: { ...inner, first: true },
      recomputed: 1,
      isAhead: true,
      samples: 2,
      seconds: 3,
    });
  });

  it('that are of no work of the plan are passed over', () => {
    const odd = ['9F0', '0F9', '0R0', '0SEND_F0', '1REDUCE', 'F', '', '0F0 '].map((action) => span(action, 0, 1));
    expect(workDone(plan, A, [...odd, span('1F0', 5, 5), span('1F0', 9, 8)])).toEqual([]);
  });
});

describe('typical times', () => {
  it('are the lower quartile at a share of the GPU time, the median at full speed, of three spans at least', () => {
    const two = withSpans([], [done(5), done(1)]);
    expect(typicalWork(two, false)).toEqual([]);
    const five = withSpans(two, [done(4), done(2), done(3)]);
    expect(typicalWork(five, true)).toEqual([done(2)]);
    expect(typicalWork(five, false)).toEqual([done(3)]);
    expect(typicalWork(two, false)).toEqual([]);
  });

  it('follow the newest spans', () => {
    const many = arrayOf(100, () => done(1));
    const newest = arrayOf(24, () => done(2));
    expect(typicalWork(withSpans(withSpans([], many), newest), true)).toEqual([done(2)]);
  });
});

describe('a profile that spans correct', () => {
  const profile: PeerProfile = admittedProfile({
    layers: [{ samples: 1, forwardSeconds: 1, backwardSeconds: 2 }],
    memoryBytes: 1e9,
    checkedKernels: 0,
  });

  it('has the ratio of measured to admitted, by direction and size, in place of an older one', () => {
    const first = corrected(model, batch, profile, [done(6), done(4, 4)]);
    expect(first.ratios).toEqual([
      { op: 'F', samples: 2, ratio: 1.5 },
      { op: 'F', samples: 4, ratio: 0.5 },
    ]);
    const again = corrected(model, batch, first, [done(8)]);
    expect(again.ratios).toContainEqual({ op: 'F', samples: 2, ratio: 2 });
    expect(again.ratios).toHaveLength(2);
  });

  it('learns nothing from what is absurd', () => {
    expect(corrected(model, batch, profile, [done(4_000), done(0.001, 4)]).ratios).toEqual([]);
  });
});
