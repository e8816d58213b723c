import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { peerId, seededRandom } from '../base.ts';
import { makespanSeconds } from '../plan/timeline.ts';
import { type Action, formatAction, type SimulatedSchedule } from '../schedule/action.ts';
import { timelineProblems } from '../schedule/checkTimeline.ts';
import { oneForwardOneBackward } from '../schedule/oneForwardOneBackward.ts';
import { loopedPlan } from '../schedule/placement.ts';
import { fixedOrderEnds, messageDrivenEnds } from './bruteForce.ts';
import { barsOf, costsOf, type Outcome, outcomeDocument, outcomeOf } from './outcome.ts';
import { parseSimulateProblem, type SimulateProblem } from './problem.ts';
import { simulate } from './simulate.ts';

const upTo = (count: number): number[] => [...Array(count).keys()];
const ONE_TWO = { forwardSeconds: 1, backwardSeconds: 2 };

function problem(schedule: SimulatedSchedule, peers: number, microBatches: number, more: object = {}): SimulateProblem {
  const stages = upTo(peers).map(() => ONE_TWO);
  const parsed = parseSimulateProblem({ schedule, microBatches, stages, ...more });
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}
function run(given: SimulateProblem): Outcome {
  const outcome = outcomeOf(given);
  if (!outcome.ok) throw new Error(outcome.reason);
  return outcome.value;
}
const makespan = (...of: Parameters<typeof problem>): number => run(problem(...of)).makespanSeconds;
const inFlight = (...of: Parameters<typeof problem>): number[] =>
  run(problem(...of)).peers.map(({ peakInFlight }) => peakInFlight);
const ends = (outcome: Outcome): Map<string, number> =>
  new Map(barsOf(outcome).map(({ action, end }) => [formatAction(action), end]));

describe('closed forms, F=1, B=2', () => {
  test.each([
    [4, 4, 21],
    [4, 8, 33],
    [8, 8, 45],
    [8, 32, 117],
  ])('[SI7] gpipe, 1f1b and eager of %i peers, %i micro-batches take %i', (p, m, seconds) => {
    for (const schedule of ['gpipe', '1f1b', 'eager'] as const) {
      const outcome = run(problem(schedule, p, m));
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
        expect(run(problem(schedule, p, m, { chunks })).bubbleRatio).toBeCloseTo((p - 1) / (m * chunks + p - 1), 12);
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
          const given = problem('chimera', p, m, { pairs: f });
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

/** Whole numbers, so that sums are exact in any order. */
function randomProblem(seed: number, schedule: SimulatedSchedule): SimulateProblem {
  const random = seededRandom(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const fixed = schedule !== 'eager' && schedule !== 'varuna';
  const p = schedule === 'chimera' ? 2 + 2 * below(3) : 1 + below(5);
  const chunks = 1 + below(3);
  const divisors = upTo(p).filter((f) => f > 0 && (p / 2) % f === 0);
  const link = () => ({
    latencySeconds: below(5),
    bytesPerSecond: fixed && random() < 0.7 ? 2 ** below(4) : null,
    windowBytes: fixed && random() < 0.3 ? 2 ** below(6) : null,
    streams: 2 ** below(3),
  });
  const parsed = parseSimulateProblem({
    schedule,
    microBatches: schedule === 'interleaved' || schedule === 'chimera' ? p * (1 + below(3)) : 1 + below(9),
    // A multiple of every number of chunks.
    stages: upTo(p).map(() => ({ forwardSeconds: 6 * (1 + below(4)), backwardSeconds: 6 * (1 + below(6)) })),
    chunks,
    pairs: divisors[below(divisors.length)] ?? 1,
    warmup: random() < 0.5 ? 'overlap' : 'normal',
    maxInFlight: random() < 0.5 ? 1 + below(6) : null,
    link: random() < 0.5 ? link() : upTo(p).map(link),
    activationBytes: 8 * below(6),
    gradientBytes: 8 * below(6),
  });
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

describe('against brute force', () => {
  test.each(['gpipe', '1f1b', 'interleaved', 'breadth-first', 'chimera'] as const)(
    '[SI1] [SI3] %s: unequal stages, latencies, rates, windows and hops of their own',
    (schedule) => {
      fc.assert(
        fc.property(fc.integer(), (seed) => {
          const given = randomProblem(seed, schedule);
          const [own, expected] = [ends(run(given)), fixedOrderEnds(given)];
          expect(own.size).toBe(expected.size);
          const wrong = [...expected].filter(([action, end]) => Math.abs((own.get(action) ?? -1) - end) > 1e-6);
          expect(wrong).toEqual([]);
        }),
        { seed: 3, numRuns: 120 },
      );
    },
  );

  test.each(['eager', 'varuna'] as const)('[SC15] [SC16] [SI4] %s: unequal stages, latencies', (schedule) => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const given = randomProblem(seed, schedule);
        const stages = given.stages.map((stage) => ({
          forwardSeconds: stage.forwardSeconds / 6,
          backwardSeconds: stage.backwardSeconds / 6,
        }));
        const small = { ...given, stages };
        expect(ends(run(small))).toEqual(messageDrivenEnds(small));
      }),
      { seed: 3, numRuns: 300 },
    );
  });
});

test.each(['eager', 'varuna', '1f1b', 'interleaved'] as const)('[SC18] %s on slow links in bad weather', (schedule) => {
  fc.assert(
    fc.property(fc.integer(), fc.nat(), (seed, weather) => {
      const drawn = randomProblem(seed, schedule);
      const given = {
        ...drawn,
        link: { latencySeconds: 1, bytesPerSecond: 4, windowBytes: null, streams: 1 },
        jitter: { computeSeconds: 2, linkSeconds: 5, seed: weather },
      };
      const plan = loopedPlan(
        given.stages.map((_, index) => peerId(String(index))),
        given.microBatches,
        schedule === 'interleaved' ? given.chunks : 1,
      );
      const timeline = barsOf(run(given)).map(({ peer, action, start, end }) => ({
        peer: peerId(String(peer)),
        action,
        startSeconds: start,
        endSeconds: end,
      }));
      expect(timelineProblems({ tied: false }, plan, timeline)).toEqual([]);
      const each = given.microBatches * plan.stages.length;
      const recomputes = schedule === 'varuna' ? each - given.microBatches : 0;
      expect(new Set(timeline.map(({ action }) => formatAction(action))).size).toBe(2 * each + recomputes);
    }),
    { seed: 3, numRuns: 60 },
  );
});

describe('outcome', () => {
  test('the document: totals, then the timeline by start and peer', () => {
    expect(outcomeDocument(run(problem('1f1b', 2, 1, { link: { latencySeconds: 1 } })))).toEqual({
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
    const timeline = barsOf(run(problem('chimera', 4, 4)));
    expect(outcomeDocument(run(problem('chimera', 4, 4))).timeline.slice(0, 2)).toEqual([
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
    // On two peers of two chunks both kinds go both ways; the brute force above finds the same ends.
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
    const { makespanSeconds } = run({ ...problem('eager', 8, 32), stages: tenths });
    expect(makespanSeconds).toBeCloseTo(11.7, 9);
  });

  test('the slow peer does better first than last under 1f1b', () => {
    const order = (...times: number[]) =>
      times.map((forwardSeconds) => ({ forwardSeconds, backwardSeconds: 2 * forwardSeconds }));
    expect(makespan('1f1b', 4, 8, { stages: order(2, 1, 1, 1) })).toBeLessThan(
      makespan('1f1b', 4, 8, { stages: order(1, 1, 1, 2) }),
    );
  });
});

describe('jitter', () => {
  const jitter = (seed: number) => ({ jitter: { computeSeconds: 0.3, linkSeconds: 0.5, seed } });

  test('[SI8] the same seed gives the same timeline, another seed another', () => {
    for (const schedule of ['1f1b', 'eager', 'varuna'] as const) {
      expect(run(problem(schedule, 4, 8, jitter(7)))).toEqual(run(problem(schedule, 4, 8, jitter(7))));
      expect(makespan(schedule, 4, 8, jitter(7))).not.toBe(makespan(schedule, 4, 8, jitter(8)));
    }
  });

  test('[SI8] it only ever adds, to actions and to messages, as much as a half-normal variate does', () => {
    const late = run(problem('gpipe', 1, 4000, { jitter: { computeSeconds: 0.3 } }));
    const extra = barsOf(late).map(({ action, start, end }) => end - start - (action.op === 'F' ? 1 : 2));
    expect(Math.min(...extra)).toBeGreaterThanOrEqual(-1e-9);
    // The mean of |N(0, 1)| is √(2/π).
    const mean = extra.reduce((sum, seconds) => sum + seconds, 0) / extra.length;
    expect(mean / 0.3).toBeCloseTo(Math.sqrt(2 / Math.PI), 1);
    const messages = run(problem('1f1b', 2, 1, { jitter: { linkSeconds: 0.3 } }));
    expect(messages.peers.map(({ busySeconds }) => busySeconds)).toEqual([3, expect.closeTo(3, 9)]);
    expect(messages.makespanSeconds).toBeGreaterThan(6);
  });

  test('[SC16] on wavering links varuna is no slower than 1f1b with recompute for 95 of 100 seeds', () => {
    const seeds = upTo(40);
    const faster = seeds.filter((seed) => {
      const weather = { jitter: { linkSeconds: 0.5, computeSeconds: 0.05, seed } };
      return makespan('varuna', 8, 32, weather) <= fixedOrderWithRecompute(problem('1f1b', 8, 32, weather));
    });
    expect(faster.length).toBeGreaterThanOrEqual(0.95 * seeds.length);
  });
});

/** 1f1b with a recompute before each backward but the last stage's. */
function fixedOrderWithRecompute(given: SimulateProblem): number {
  const peers = given.stages.map((_, index) => peerId(String(index)));
  const plan = loopedPlan(peers, given.microBatches, 1);
  const again = (action: Action): Action[] =>
    action.op === 'B' && action.stage < peers.length - 1 ? [{ ...action, op: 'R' }, action] : [action];
  const schedule = new Map([...oneForwardOneBackward(plan)].map(([peer, list]) => [peer, list.flatMap(again)]));
  return makespanSeconds(simulate({ tied: false }, plan, schedule, costsOf(given)));
}

describe('refusals', () => {
  const reason = (given: object): string => {
    const parsed = parseSimulateProblem({
      schedule: '1f1b',
      microBatches: 4,
      stages: [ONE_TWO, ONE_TWO, ONE_TWO],
      ...given,
    });
    return parsed.ok ? 'none' : parsed.reason;
  };
  test.each([
    [{ schedule: 'chimera' }, 'chimera needs an even number of peers, not 3'],
    [{ schedule: 'chimera', stages: upTo(8).map(() => ONE_TWO), microBatches: 8, pairs: 3 }, 'pairs to divide half'],
    [{ schedule: 'chimera', stages: [ONE_TWO, ONE_TWO], microBatches: 3 }, 'a multiple of the 2 peers, not 3'],
    [{ schedule: 'interleaved' }, 'interleaved needs microBatches to be a multiple of the 3 peers, not 4'],
    [{ schedule: 'zigzag' }, 'schedule must be one of gpipe, 1f1b, interleaved'],
    [{ microBatches: 0 }, 'microBatches must be a positive integer, not 0'],
    [{ microBatches: 1e9 }, 'microBatches times stages must be at most'],
    [{ stages: [] }, 'stages must be a list of one stage or more'],
    [{ stages: [{ forwardSeconds: 1 }] }, 'stages[0].backwardSeconds is missing'],
    [
      { stages: [{ forwardSeconds: -1, backwardSeconds: 1 }] },
      'stages[0].forwardSeconds must be a number of 0 or more',
    ],
    [{ stages: [{ ...ONE_TWO, forwardSeconds: Number.NaN }] }, 'stages[0].forwardSeconds must be a number'],
    [{ stages: [{ ...ONE_TWO, speed: 1 }] }, 'stages[0].speed is unknown'],
    [{ link: { latencySeconds: -1 } }, 'link.latencySeconds must be a number of 0 or more, not -1'],
    [{ link: [{}, { rate: 1 }, {}] }, 'link[1].rate is unknown'],
    [{ link: [{}] }, 'link must have an entry for each of the 3 peers'],
    [{ link: { bytesPerSecond: 0 } }, 'link.bytesPerSecond must be a number above 0, or null, not 0'],
    [{ link: { streams: 0 } }, 'link.streams must be a positive integer'],
    [{ chunks: 0 }, 'chunks must be a positive integer'],
    [{ warmup: 'slow' }, 'warmup must be "normal" or "overlap"'],
    [{ jitter: { computeSeconds: -1 } }, 'jitter.computeSeconds must be a number of 0 or more'],
    [{ jitter: { seed: 0.5 } }, 'jitter.seed must be an integer'],
    [{ maxInFlight: 0 }, 'maxInFlight must be a positive integer, or null'],
    [{ microbatches: 3 }, 'microbatches is unknown'],
  ])('%j', (given, sentence) => {
    expect(reason(given)).toContain(sentence);
  });

  test('on a ring the hop from the last peer to the first needs its entry', () => {
    const ring = { schedule: 'interleaved', microBatches: 3, chunks: 2 };
    expect(reason({ ...ring, link: [{}, {}] })).toContain('link must have an entry for each of the 3 peers: not 2');
    expect(reason({ ...ring, link: [{}, {}, {}] })).toBe('none');
  });

  test('times that add up to no number', () => {
    const outcome = outcomeOf(problem('1f1b', 1, 4, { stages: [{ forwardSeconds: 1e308, backwardSeconds: 1e308 }] }));
    expect(outcome).toEqual({ ok: false, reason: 'the times are too long to add up' });
  });
});
