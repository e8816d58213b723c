/**
 * Figures that papers on schedules state, or that follow from their formulas, where no rule's own test has them: SEEDS.md
 * sets them beside ours. A forward takes 1 s, a backward 2 s.
 */

import { describe, expect, test } from 'vitest';
import { type PeerId, peerId } from '../base.ts';
import type { ScheduleName } from '../plan/plan.ts';
import { isCompute, type Schedule } from '../schedule/action.ts';
import { breadthFirst } from '../schedule/breadthFirst.ts';
import { gpipe } from '../schedule/gpipe.ts';
import { interleaved } from '../schedule/interleaved.ts';
import { addRecompute } from '../schedule/lower.ts';
import { microBatchQueue } from '../schedule/messageDriven.ts';
import { oneForwardOneBackward } from '../schedule/oneForwardOneBackward.ts';
import { bidirectionalPlan, loopedPlan } from '../schedule/placement.ts';
import { NO_WORK, type Policy } from '../schedule/policy.ts';
import { slots } from '../schedule/slots.ts';
import { chain, makespan, run, upTo } from '../testing/chain.ts';
import { donors } from '../testing/randomPlan.ts';
import { withRecompute } from '../testing/withRecompute.ts';
import { makespanSeconds } from '../timeline/timeline.ts';
import { linkRate } from './links.ts';
import { costsOf, outcomeDocument } from './outcome.ts';
import type { SimulateProblem } from './problem.ts';
import { simulate } from './simulate.ts';

const unequal = (...forwards: number[]) => ({
  stages: forwards.map((forwardSeconds) => ({ forwardSeconds, backwardSeconds: 2 * forwardSeconds })),
});

const percent = (ratio: number): number => Math.round(1000 * ratio) / 10;

describe('GPipe (Huang et al. 2019)', () => {
  test.each([
    [2, 8, 11.1],
    [4, 16, 15.8],
  ])('of %i stages four times as many micro-batches, %i, idle %d %%', (p, m, idle) => {
    expect(percent(run(chain('gpipe', p, m)).bubbleRatio)).toBe(idle);
  });

  test.each([
    [4, 32, 3.66],
    [8, 32, 6.56],
  ])('%i stages, %i micro-batches: pm/(m + p − 1), %d times as fast as one peer', (p, m, speedup) => {
    expect((3 * m * p) / makespan('gpipe', p, m)).toBeCloseTo(speedup, 2);
  });
});

describe('1F1B and interleaving (Narayanan et al. 2021)', () => {
  test.each([
    [
      [2, 1, 1, 1],
      [27, 51, 99],
      [33, 57, 105],
    ],
    [
      [1, 2, 1, 1],
      [29, 53, 101],
      [33, 57, 105],
    ],
    [
      [1, 1, 1, 2],
      [33, 57, 105],
      [33, 57, 105],
    ],
    [
      [4, 3, 2, 1],
      [56, 104, 200],
      [66, 114, 210],
    ],
    [
      [1, 2, 3, 4],
      [66, 114, 210],
      [66, 114, 210],
    ],
  ])(
    '[SC12] stages of %j: Σt + (m − 1)·max t is what gpipe takes; 1f1b with a slow peer early takes less',
    (forwards, own, bound) => {
      const sum = 3 * forwards.reduce((total, one) => total + one, 0);
      const counts = [4, 8, 16];
      expect(counts.map((m) => sum + 3 * (m - 1) * Math.max(...forwards))).toEqual(bound);
      expect(counts.map((m) => makespan('gpipe', 4, m, unequal(...forwards)))).toEqual(bound);
      expect(counts.map((m) => makespan('1f1b', 4, m, unequal(...forwards)))).toEqual(own);
    },
  );

  test.each([
    [2, 4, 2, '0 1 0 1 2 3 2 3', '0 0 1 1 0 0 1 1'],
    [3, 6, 2, '0 1 2 0 1 2 3 4 5 3 4 5', '0 0 0 1 1 1 0 0 0 1 1 1'],
  ])('[SC13] the table of %i peers, %i micro-batches, %i chunks', (p, m, v, microBatches, chunks) => {
    const [list = []] = interleaved(loopedPlan(donors(p), m, v)).values();
    const forwards = list.filter(isCompute).filter(({ op }) => op === 'F');
    expect(forwards.map(({ microBatch }) => microBatch).join(' ')).toBe(microBatches);
    expect(forwards.map(({ stage }) => Math.floor(stage / p)).join(' ')).toBe(chunks);
  });

  test('[SC13] in flight: the forwards of the warm-up and one more', () => {
    for (const [p, m, v] of [
      [4, 4, 2],
      [4, 8, 2],
      [4, 8, 4],
      [8, 32, 2],
      [8, 32, 4],
    ] as const)
      expect(run(chain('interleaved', p, m, { chunks: v })).peers.map(({ peakInFlight }) => peakInFlight)).toEqual(
        upTo(p).map((r) => Math.min(m * v, 2 * (p - r - 1) + (v - 1) * p + 1)),
      );
  });
});

describe('Breadth-First (Lamy-Poirier 2023)', () => {
  test('[SC13] 8 peers, 8 micro-batches: 1 + (p − 1)/(m·v) times the work', () => {
    const factors = [1, 2, 4, 8].map((v) => makespan('breadth-first', 8, 8, { chunks: v }) / (3 * 8));
    expect(factors.map((factor) => Number(factor.toFixed(5)))).toEqual([1.875, 1.4375, 1.21875, 1.10938]);
  });

  test('[SC24] a peer comes to each stage once a direction, whatever m; interleaving comes back with every group', () => {
    const visits = (schedule: Schedule): number => {
      const [actions = []] = schedule.values();
      const list = actions.filter(isCompute);
      return list.filter(({ op, stage }, index) => list[index - 1]?.op !== op || list[index - 1]?.stage !== stage)
        .length;
    };
    const plans = [4, 8, 16].map((m) => loopedPlan(donors(4), m, 2));
    expect(plans.map((plan) => visits(breadthFirst(plan)))).toEqual([4, 4, 4]);
    expect(plans.map((plan) => visits(interleaved(plan)))).toEqual([4, 16, 48]);
  });
});

describe('Chimera (Li and Hoefler 2021)', () => {
  test('[SC14] idle, B = 2F: 25.0, 20.0 and 17.2 % where 1f1b has 42.9, 27.3 and 15.8 %; none with p/2 pairs', () => {
    const idle = (schedule: ScheduleName) => [4, 8, 16].map((m) => percent(run(chain(schedule, 4, m)).bubbleRatio));
    expect(idle('chimera')).toEqual([25, 20, 17.2]);
    expect(idle('1f1b')).toEqual([42.9, 27.3, 15.8]);
    for (const p of [2, 4, 8, 16]) expect(run(chain('chimera', p, p, { pairs: p / 2 })).bubbleRatio).toBe(0);
  });

  test('[SC25] six peers, six micro-batches: six forwards and ten backwards on the critical path', () => {
    expect(makespan('chimera', 6, 6)).toBe(6 * 1 + 10 * 2);
  });

  test('[SC14] one pair is faster than 1f1b below p(2p − 1)/(p − 2) micro-batches, and slower above', () => {
    for (const p of [4, 6, 8])
      for (let m = p; m <= 4 * p; m += p) {
        const ahead = makespan('1f1b', p, m) - makespan('chimera', p, m);
        expect(Math.sign(ahead), `${p} peers, ${m}`).toBe(Math.sign((p * (2 * p - 1)) / (p - 2) - m));
      }
  });

  test('[SC14] a peer holds the weights of 2f stages', () => {
    for (const f of [1, 2, 4]) {
      const { stages } = bidirectionalPlan(donors(8), 8, f);
      for (const donor of donors(8))
        expect(stages.filter(({ members }) => members.some(({ peer }) => peer === donor))).toHaveLength(2 * f);
    }
  });
});

/** Seconds with everything but the last stage recomputed, in 1f1b's order. */
function recomputing(given: SimulateProblem): number {
  const peers = given.stages.map((_, index) => peerId(String(index)));
  const plain = loopedPlan(peers, given.microBatches, 1);
  const order = oneForwardOneBackward(plain);
  const plan = withRecompute(plain, order, (_peer, stage) => stage === peers.length - 1);
  return makespanSeconds(simulate({ tied: false }, plan, addRecompute(plan, order), costsOf(given)));
}

/** Of 100 seeds: how many are no slower, and the mean, in percent of the other. */
function beside(own: (given: object) => number, other: (given: object) => number, compute: number, link: number) {
  const ratios = upTo(100).map((seed) => {
    const weather = { jitter: { computeSeconds: compute, linkSeconds: link, seed } };
    return own(weather) / other(weather);
  });
  return {
    noSlower: ratios.filter((ratio) => ratio < 1 + 1e-9).length,
    mean: percent(ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length),
  };
}

describe('ATLAS (2024)', () => {
  test('one stream is limited by its window, so that several fill a long line', () => {
    const megabits = (roundTripSeconds: number, streams: number): number => {
      const limits = { latencySeconds: roundTripSeconds / 2, bytesPerSecond: null, windowBytes: 1.5e6, streams };
      return Math.round(((linkRate(limits) ?? 0) * 8) / 1e6);
    };
    expect([0.01, 0.02, 0.03, 0.04].map((seconds) => megabits(seconds, 1))).toEqual([1200, 600, 400, 300]);
    const filling = (seconds: number): number => upTo(32).find((streams) => megabits(seconds, streams) >= 5000) ?? 0;
    expect([0.01, 0.04].map(filling)).toEqual([5, 17]);
  });

  test.each([
    ['no slow link', 4, [], [21, 33, 57]],
    ['two sites', 4, [1], [29, 49, 89]],
    ['three sites', 6, [1, 3], [39, 59, 99]],
  ])('[SI3] %s, %i stages, a hop of 2 s between sites: 4, 8 and 16 micro-batches', (_, p, slow, seconds) => {
    const link = upTo(p).map((hop) => ({ bytesPerSecond: slow.some((one) => one === hop) ? 1 : null }));
    const given = { link, activationBytes: 2, gradientBytes: 2 };
    expect([4, 8, 16].map((m) => makespan('1f1b', p, m, given))).toEqual(seconds);
  });

  test.each([
    // Computed for the paper's rule: each pipeline on a line of its own against all by turns on one line of all their rates.
    [4, [1], 4, [39, 67, 123], [30, 46, 78], [1.3, 1.46, 1.58]],
    [4, [1], 2, [29, 49, 89], [26, 42, 74], [1.12, 1.17, 1.2]],
    [6, [1, 3], 2, [39, 59, 99], [34, 50, 82], [1.15, 1.18, 1.21]],
  ])('[SI15] %i stages, links %j shared by %i pipelines', (p, sharedLinks, pipelines, mixed, turns, ratios) => {
    const counts = [4, 8, 16];
    const link = upTo(p).map((hop) => ({ bytesPerSecond: sharedLinks.includes(hop) ? pipelines : null }));
    const given = { link, activationBytes: pipelines, gradientBytes: pipelines, pipelines, sharedLinks };
    const seconds = (sharing: string) => counts.map((m) => makespan('1f1b', p, m, { ...given, sharing }));
    expect(seconds('mixed')).toEqual(mixed);
    expect(seconds('turns')).toEqual(turns);
    expect(counts.map((_, index) => Math.round((100 * (mixed[index] ?? 0)) / (turns[index] ?? 1)) / 100)).toEqual(
      ratios,
    );
  });

  test.each(['mixed', 'turns'])(
    '[SI15] %s: what one pipeline shares with nobody, and what shares no link, is as without',
    (sharing) => {
      const link = { bytesPerSecond: 1 };
      const bytes = { link, activationBytes: 1, gradientBytes: 1 };
      const alone = makespan('1f1b', 4, 8, bytes);
      expect(makespan('1f1b', 4, 8, { ...bytes, sharedLinks: [0, 2], sharing })).toBe(alone);
      for (const pipelines of [1, 2])
        expect(makespan('1f1b', 4, 8, { ...bytes, pipelines, sharedLinks: [], sharing })).toBe(alone);
    },
  );
});

describe('BubbleTea (2024): requests in the idle time', () => {
  test('9 of 21 s of every peer are idle, 12 are work', () => {
    const { peers, bubbleRatio } = run(chain('1f1b', 4, 4));
    expect(peers.map(({ busySeconds, idleSeconds }) => [busySeconds, idleSeconds])).toEqual(upTo(4).map(() => [12, 9]));
    expect(percent(1 - bubbleRatio)).toBe(57.1);
  });

  test.each([
    [0.25, 96.8],
    [0.5, 93.7],
    [1, 87.4],
  ])(
    'two pipelines over three sites, pieces of %d s: busy from 45 to %d percent, training as without',
    (pieceSeconds, busy) => {
      // Two stages a site; between sites 1 s for an activation on the common line, by turns, and 1 s of latency.
      const link = upTo(6).map((hop) => (hop % 2 === 1 ? { latencySeconds: 1, bytesPerSecond: 2 } : {}));
      const bytes = { activationBytes: 2, gradientBytes: 2 };
      const cluster = { ...bytes, link, pipelines: 2, sharedLinks: [1, 3], sharing: 'turns' };
      const plain = outcomeDocument(run(chain('1f1b', 6, 12, cluster)));
      expect([plain.makespanSeconds, percent(1 - plain.bubbleRatio)]).toEqual([80, 45]);
      const requests = { pieceSeconds, guardSeconds: 0.1 };
      const { served, ...training } = outcomeDocument(run(chain('1f1b', 6, 12, { ...cluster, requests })));
      expect(training).toEqual(plain);
      expect(percent(served?.busyRatio ?? 0)).toBe(busy);
    },
  );
});

describe('orders that follow messages, in jitter', () => {
  test('[SC16] Varuna (Athlur et al. 2022): in calm no faster than 1f1b with recompute', () => {
    expect([4, 5, 8].map((m) => makespan('varuna', 4, m))).toEqual([24, 27, 39]);
    expect([4, 5, 8].map((m) => recomputing(chain('1f1b', 4, m)))).toEqual([23, 27, 39]);
  });

  test.each([
    [4, 16, 0, 0.5, 99, 97],
    [8, 32, 0, 0.5, 100, 95.5],
    [4, 8, 0.1, 0, 22, 100.9],
    [4, 16, 0.1, 0, 48, 100],
    [8, 32, 0.5, 0, 89, 98.7],
  ])(
    '[SC26] varuna, %i peers, %i micro-batches, jitter %d s computing, %d s travelling',
    (p, m, compute, link, noSlower, mean) => {
      const own = (weather: object) => makespan('varuna', p, m, weather);
      const other = (weather: object) => recomputing(chain('1f1b', p, m, weather));
      expect(beside(own, other, compute, link)).toEqual({ noSlower, mean });
    },
  );

  test('[SC26] where links waver more than computing does, varuna is no slower for 95 of 100 seeds', () => {
    const own = (weather: object) => makespan('varuna', 8, 32, weather);
    const other = (weather: object) => recomputing(chain('1f1b', 8, 32, weather));
    expect(beside(own, other, 0.05, 0.5).noSlower).toBeGreaterThanOrEqual(95);
  });

  // AxoNN finds that following messages wins; here, where the order alone differs, it does not.
  test.each([
    [4, 16, 0.3, 0, 98, 100.1],
    [8, 32, 0.3, 0, 68, 100.5],
    [4, 16, 0, 0.5, 44, 101.6],
    [8, 32, 0, 0.5, 0, 103.7],
    [8, 32, 0, 1, 1, 104.8],
  ])(
    '[SC15] eager, %i peers, %i micro-batches, jitter %d s computing, %d s travelling',
    (p, m, compute, link, noSlower, mean) => {
      const own = (weather: object) => makespan('eager', p, m, weather);
      const other = (weather: object) => makespan('1f1b', p, m, weather);
      expect(beside(own, other, compute, link)).toEqual({ noSlower, mean });
    },
  );

  test('[SC15] what helps eager on wavering links is the room of the overlapping warm-up, and 1f1b has it as well', () => {
    const plain = (weather: object) => makespan('1f1b', 8, 32, weather);
    const wide = (schedule: 'eager' | '1f1b') => (weather: object) =>
      makespan(schedule, 8, 32, { ...weather, warmup: 'overlap' });
    expect([wide('eager'), wide('1f1b')].map((own) => beside(own, plain, 0, 0.5).mean)).toEqual([82.5, 81.4]);
    expect(beside(wide('eager'), wide('1f1b'), 0, 1).mean).toBe(106.7);
  });

  // Eager's rule but for one thing: a forward that may start goes before a backward.
  const forwardsFirst =
    (bounds: ReadonlyMap<PeerId, ReadonlyMap<number, number>>): Policy =>
    ({ graph }) => {
      const peers = graph.peers.map((peer) => ({
        bound: Math.max(...(bounds.get(peer)?.values() ?? [])),
        inFlight: 0,
        F: microBatchQueue(graph),
        B: microBatchQueue(graph),
      }));
      const isForward = (work: number): boolean => graph.actions[work]?.op === 'F';
      return {
        ready: (work) => peers[graph.peerOf[work] ?? 0]?.[isForward(work) ? 'F' : 'B'].add(work),
        ended(work) {
          const peer = peers[graph.peerOf[work] ?? 0];
          if (peer && !isForward(work)) peer.inFlight--;
        },
        next(at) {
          const peer = peers[at];
          const forward = peer && peer.inFlight < peer.bound ? peer.F.first() : undefined;
          const work = forward ?? peer?.B.first();
          if (!peer || work === undefined) return NO_WORK;
          if (forward !== undefined) peer.inFlight++;
          peer[isForward(work) ? 'F' : 'B'].remove(work);
          return work;
        },
      };
    };

  test.each([
    ['normal', 0.5, 103.3],
    ['overlap', 0.5, 100],
    ['overlap', 1, 101.1],
  ] as const)(
    '[SC15] it is the backwards that cost: forwards first, %s warm-up, %d s travelling',
    (warmup, link, mean) => {
      const own = (weather: object): number => {
        const given = chain('eager', 8, 32, { ...weather, warmup });
        // Costs know peers by their numbers.
        const plan = loopedPlan(
          upTo(8).map((number) => peerId(String(number))),
          32,
          1,
        );
        const policy = forwardsFirst(slots(oneForwardOneBackward(plan, warmup)));
        return makespanSeconds(simulate({ tied: false }, plan, gpipe(plan), costsOf(given), policy));
      };
      const other = (weather: object): number => makespan('1f1b', 8, 32, { ...weather, warmup });
      expect(beside(own, other, 0, link).mean).toBe(mean);
    },
  );
});
