import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { peerId, seededRandom, total } from '../base.ts';
import { type Plan, peers, type ScheduleName } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { formatAction, isTransfer, type Schedule, type Work, workKey } from '../schedule/action.ts';
import { build, forwardOnly, stepSchedule } from '../schedule/lower.ts';
import { before, wiring } from '../schedule/order.ts';
import { recomputing } from '../schedule/recompute.ts';
import { slots } from '../schedule/slots.ts';
import { peakInFlight } from '../testing/peakInFlight.ts';
import { donors, outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { parseSchedule } from '../testing/scheduleText.ts';
import { bubbleRatio, busySeconds, makespanSeconds, spansByPeer, type Timeline } from '../timeline/timeline.ts';
import type { Costs } from './clock.ts';
import { simulate } from './simulate.ts';

const FREE: Costs = {
  forwardSeconds: () => 1,
  backwardSeconds: () => 2,
  link: () => ({ latencySeconds: 0, bytesPerSecond: null }),
  activationBytes: () => 0,
  gradientBytes: () => 0,
};
const pipeline = (
  stages: number,
  microBatches: number,
  schedule: ScheduleName = 'gpipe',
): [ReturnType<typeof outlineModel>, Plan] => {
  const model = outlineModel(stages, true);
  return [model, equalSplit(model, microBatches, donors(stages), { microBatches, schedule })];
};
const print = (timeline: Timeline) =>
  timeline.map(
    ({ peer, action, startSeconds, endSeconds }) => `${peer} ${formatAction(action)} ${startSeconds}-${endSeconds}`,
  );

describe('gpipe', () => {
  test.each([
    [4, 4, 21],
    [4, 8, 33],
    [8, 8, 45],
    [8, 32, 117],
    [1, 5, 15],
  ])('%i stages, %i micro-batches take %i', (stages, microBatches, seconds) => {
    const [model, plan] = pipeline(stages, microBatches);
    for (const schedule of [build(plan), stepSchedule(plan)]) {
      const timeline = simulate(model, plan, schedule, FREE);
      expect(makespanSeconds(timeline)).toBe(seconds);
      expect(bubbleRatio(timeline, peers(plan))).toBeCloseTo((stages - 1) / (stages - 1 + microBatches), 12);
      for (const peer of peers(plan)) expect(busySeconds(spansByPeer(timeline).get(peer) ?? [])).toBe(3 * microBatches);
      for (const peer of peers(plan)) expect(peakInFlight(timeline, peer)).toBe(microBatches);
    }
  });

  test('[SI1] the timeline of two stages, ordered by start, then peer', () => {
    const [model, plan] = pipeline(2, 2);
    expect(print(simulate(model, plan, build(plan), FREE))).toEqual([
      'd0 0F0 0-1',
      'd0 0F1 1-2',
      'd1 1F0 1-2',
      'd1 1F1 2-3',
      'd1 1B0 3-5',
      'd0 0B0 5-7',
      'd1 1B1 5-7',
      'd0 0B1 7-9',
    ]);
  });
});

describe('1f1b', () => {
  test.each([
    [4, 4, 21],
    [4, 8, 33],
    [8, 8, 45],
    [8, 32, 117],
    [1, 5, 15],
    [4, 2, 15],
  ])('%i stages, %i micro-batches take %i, as gpipe, with min(m, p − s) in flight', (stages, count, seconds) => {
    const [model, plan] = pipeline(stages, count, '1f1b');
    for (const schedule of [build(plan), stepSchedule(plan)]) {
      const timeline = simulate(model, plan, schedule, FREE);
      expect(makespanSeconds(timeline)).toBe(seconds);
      expect(bubbleRatio(timeline, peers(plan))).toBeCloseTo((stages - 1) / (stages - 1 + count), 12);
      for (const [stage, peer] of peers(plan).entries()) {
        expect(busySeconds(spansByPeer(timeline).get(peer) ?? [])).toBe(3 * count);
        expect(peakInFlight(timeline, peer)).toBe(Math.min(count, stages - stage));
        expect(slots(schedule).get(peer)?.get(stage)).toBe(Math.min(count, stages - stage));
      }
    }
  });

  test('[SI1] the timeline of two stages', () => {
    const [model, plan] = pipeline(2, 3, '1f1b');
    expect(print(simulate(model, plan, build(plan), FREE))).toEqual([
      'd0 0F0 0-1',
      'd0 0F1 1-2',
      'd1 1F0 1-2',
      'd1 1B0 2-4',
      'd0 0B0 4-6',
      'd1 1F1 4-5',
      'd1 1B1 5-7',
      'd0 0F2 6-7',
      'd0 0B1 7-9',
      'd1 1F2 7-8',
      'd1 1B2 8-10',
      'd0 0B2 10-12',
    ]);
  });

  /**
   * Latency `l` a hop, F=1, B=2: the recurrence over the lists alone, without queue or events. Each action starts when
   * the one before it in its list and what it needs, a hop away, have ended.
   */
  test.each([
    [2, 4, 1],
    [4, 8, 0.5],
    [4, 8, 3],
    [8, 32, 2],
  ])('[SI3] %i stages, %i micro-batches with %d s a hop end where the longest path does', (stages, count, latency) => {
    const [model, plan] = pipeline(stages, count, '1f1b');
    const far: Costs = { ...FREE, link: () => ({ latencySeconds: latency, bytesPerSecond: null }) };
    expect(makespanSeconds(simulate(model, plan, build(plan), far))).toBe(recurrence(stages, count, latency));
  });
});

/** The end of a 1F1B step, from the rule itself: warm-up, then backward and forward in turn. */
function recurrence(stages: number, count: number, latency: number): number {
  const ends = new Map<string, number>();
  const end = (op: 'F' | 'B', stage: number, id: number): number => {
    const key = `${op} ${stage} ${id}`;
    const known = ends.get(key);
    if (known !== undefined) return known;
    const warmUp = Math.min(count, stages - stage);
    const starts = [0];
    if (op === 'F') {
      if (stage > 0) starts.push(end('F', stage - 1, id) + latency);
      if (id >= warmUp) starts.push(end('B', stage, id - warmUp));
      else if (id > 0) starts.push(end('F', stage, id - 1));
    } else {
      starts.push(end('F', stage, Math.min(count - 1, id + warmUp - 1)));
      if (id > 0) starts.push(end('B', stage, id - 1));
      if (stage < stages - 1) starts.push(end('B', stage + 1, id) + latency);
    }
    const seconds = Math.max(...starts) + (op === 'F' ? 1 : 2);
    ends.set(key, seconds);
    return seconds;
  };
  return end('B', 0, count - 1);
}

describe('links', () => {
  const [model, plan] = pipeline(2, 3);
  const slow: Costs = {
    ...FREE,
    link: () => ({ latencySeconds: 5, bytesPerSecond: 10 }),
    activationBytes: () => 20,
    gradientBytes: () => 10,
  };

  test('[SI1] [SI3] one message at a time, beside the sender, a latency later; a receive waits', () => {
    expect(print(simulate(model, plan, forwardOnly(plan), slow))).toEqual([
      'd0 0F0 0-1',
      'd1 1RECV_F0 0-8', // 1 + 20/10 + 5
      'd0 0SEND_F0 1-8',
      'd0 0F1 1-2',
      'd0 0SEND_F1 2-10', // the direction is free at 3
      'd0 0F2 2-3',
      'd0 0SEND_F2 3-12',
      'd1 1F0 8-9',
      'd1 1RECV_F1 9-10',
      'd1 1F1 10-11',
      'd1 1RECV_F2 11-12',
      'd1 1F2 12-13',
    ]);
  });

  test('[SI3] the two directions are apart', () => {
    // 1B0 ends while activations are still on their way; its gradient does not queue behind them.
    const schedule = parseSchedule('d0: 0F0 0F1 0F2 0B0 0B1 0B2\nd1: 1F0 1B0 1F1 1B1 1F2 1B2');
    const timeline = simulate(model, plan, schedule, { ...slow, activationBytes: () => 200 });
    const first = timeline.find(({ action }) => formatAction(action) === '0B0');
    expect(first?.startSeconds).toBe(1 + 20 + 5 + 1 + 2 + 1 + 5);
  });

  test('[SI3] links may differ by pair', () => {
    const far: Costs = { ...FREE, link: (from) => ({ latencySeconds: from === 'd0' ? 3 : 0, bytesPerSecond: null }) };
    const [model, plan] = pipeline(2, 1);
    expect(makespanSeconds(simulate(model, plan, build(plan), far))).toBe(9);
  });
});

test('[SC8] [SC20] what is done for the state takes what the costs say, and waits for the commit in between', () => {
  const [model, plan] = pipeline(2, 1);
  const seconds = { REDUCE: 1, REPORT: 3, COMMIT: 4, UPDATE: 10, SEND_V: 5, SWITCH: 0, MEET: 0, GATHER: 2 };
  const timeline = simulate(model, plan, stepSchedule(plan), { ...FREE, stateSeconds: ({ op }) => seconds[op] });
  const state = print(timeline.filter(({ action }) => !('microBatch' in action)));
  expect(state).toEqual([
    'd1 1REDUCE 4-5',
    'd1 REPORT 5-8',
    'd0 0REDUCE 6-7',
    'd0 REPORT 7-10',
    'd0 COMMIT 10-14',
    'd1 COMMIT 10-14',
    'd0 UPDATE 14-24',
    'd1 UPDATE 14-24',
    'd0 SEND_V 24-29',
    'd1 SEND_V 24-29',
    'd0 0GATHER 29-31',
    'd1 1GATHER 29-31',
  ]);
});

test('a recompute takes as long as a forward unless told', () => {
  const [model, plan] = pipeline(1, 1);
  const schedule = parseSchedule('d0: 0F0 0R0 0B0');
  expect(makespanSeconds(simulate(model, plan, schedule, FREE))).toBe(4);
  expect(makespanSeconds(simulate(model, plan, schedule, { ...FREE, recomputeSeconds: () => 0.5 }))).toBe(3.5);
});

test('a backward that ends as a forward starts leaves one micro-batch in flight', () => {
  const [model, plan] = pipeline(1, 3);
  const inFlight = (text: string) => peakInFlight(simulate(model, plan, parseSchedule(text), FREE), peerId('d0'));
  expect(inFlight('d0: 0F0 0B0 0F1 0B1 0F2 0B2')).toBe(1);
  expect(inFlight('d0: 0F0 0F1 0B0 0F2 0B1 0B2')).toBe(2);
  expect(inFlight('d0: 0F0 0F1 0F2')).toBe(1);
});

test('an order that deadlocks cannot be simulated', () => {
  const [model, plan] = pipeline(2, 2);
  const schedule = parseSchedule('d0: 0F0 0B0 0F1 0B1\nd1: 1F0 1F1 1B0 1B1');
  expect(() => simulate(model, plan, schedule, FREE)).toThrow('d0 cannot start 0B0');
});

test('a time that is not a number ends the simulation', () => {
  const [model, plan] = pipeline(2, 2);
  expect(() => simulate(model, plan, build(plan), { ...FREE, forwardSeconds: () => Number.NaN })).toThrow(
    'not a number',
  );
});

/** Costs that are whole numbers and differ everywhere, so that sums are exact and a swap shows. */
function unevenCosts(seed: number, bytesPerSecond: number | null): Costs {
  const hash = (...parts: (string | number)[]) =>
    Math.floor(
      seededRandom(
        parts.reduce<number>((h, part) => Math.imul(h ^ Number(`${part}`.replace(/\D/g, '')), 2654435761) + 1, seed),
      )() * 9,
    );
  return {
    forwardSeconds: (stage, microBatch, peer) => 1 + hash(stage, microBatch, peer),
    backwardSeconds: (stage, microBatch, peer) => 1 + hash(stage, microBatch, peer, 1),
    link: (from, to) => ({ latencySeconds: hash(from, to, 2), bytesPerSecond }),
    activationBytes: (stage, microBatch) => 4 * hash(stage, microBatch, 3),
    gradientBytes: (stage, microBatch) => 4 * hash(stage, microBatch, 4),
  };
}

/** The end of each action as the longest path to it: needs, own list, latencies. Right while links are unlimited. */
function longestPaths(model: { tied: boolean }, plan: Plan, schedule: Schedule, costs: Costs): Map<string, number> {
  const wires = wiring(model, plan, schedule);
  const ends = new Map<string, number>();
  const end = (work: Work): number => {
    const known = ends.get(workKey(work));
    if (known !== undefined) return known;
    const { peer, action } = work;
    const list = schedule.get(peer) ?? [];
    const previous = list[list.findIndex((one) => formatAction(one) === formatAction(action)) - 1];
    const starts = before(work, wires).map((need) => {
      const travels = need.peer !== peer && need.action.op === action.op;
      return end(need) + (travels ? costs.link(need.peer, peer, need.action).latencySeconds : 0);
    });
    if (previous) starts.push(end({ peer, action: previous }));
    const seconds = 'microBatch' in action && action.op === 'F' ? costs.forwardSeconds : costs.backwardSeconds;
    const duration = 'microBatch' in action ? seconds(action.stage, action.microBatch, peer) : 0;
    ends.set(workKey(work), Math.max(0, ...starts) + duration);
    return Math.max(0, ...starts) + duration;
  };
  for (const [peer, actions] of schedule) for (const action of actions) end({ peer, action });
  return ends;
}

describe('random plans', () => {
  test('[SI1] with unlimited links every action ends where the longest path to it does', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const { model, plan: drawn } = randomPlan(seededRandom(seed));
        const plan = { ...drawn, schedule: seed % 2 === 0 ? ('gpipe' as const) : ('1f1b' as const) };
        const costs = unevenCosts(seed, null);
        const timeline = simulate(model, plan, build(plan), costs);
        expect(new Map(timeline.map((span) => [workKey(span), span.endSeconds]))).toEqual(
          new Map([...longestPaths(model, plan, build(plan), costs)]),
        );
      }),
      { seed: 3, numRuns: 150 },
    );
  });

  test('a schedule takes the same time before and after lowering, on slow links too', () => {
    fc.assert(
      fc.property(fc.integer(), fc.constantFrom(null, 1, 4), (seed, bytesPerSecond) => {
        const { model, plan: drawn } = randomPlan(seededRandom(seed));
        const plan = recomputing(drawn, []);
        const costs = unevenCosts(seed, bytesPerSecond);
        const compute = (timeline: Timeline) =>
          print(timeline.filter(({ action: { op } }) => op === 'F' || op === 'B'));
        expect(compute(simulate(model, plan, stepSchedule(plan), costs))).toEqual(
          compute(simulate(model, plan, build(plan), costs)),
        );
      }),
      { seed: 3, numRuns: 150 },
    );
  });

  test('[SI1] no peer does two things at once, and no more is in flight than the list has slots for', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const { model, plan } = randomPlan(seededRandom(seed));
        const schedule = stepSchedule(plan);
        const timeline = simulate(model, plan, schedule, unevenCosts(seed, 2));
        expect(timeline).toHaveLength([...schedule.values()].flat().length);
        for (const peer of peers(plan)) {
          const own = timeline.filter((span) => span.peer === peer && !isTransfer(span.action));
          for (const [index, span] of own.entries())
            expect(span.startSeconds).toBeGreaterThanOrEqual(own[index - 1]?.endSeconds ?? 0);
          const counts = [...(slots(schedule).get(peer)?.values() ?? [])];
          expect(peakInFlight(timeline, peer)).toBeLessThanOrEqual(total(counts));
        }
      }),
      { seed: 3, numRuns: 100 },
    );
  });

  test('each cost is asked for once per action and message', () => {
    const { model, plan } = randomPlan(seededRandom(11));
    const asked: string[] = [];
    const note =
      (what: string, seconds: number) =>
      (...at: unknown[]) => {
        asked.push([what, ...at].join(' '));
        return seconds;
      };
    const schedule = forwardOnly(plan);
    simulate(model, plan, schedule, { ...FREE, forwardSeconds: note('F', 1), activationBytes: note('bytes', 1) });
    const list = [...schedule.values()].flat();
    const sends = list.filter(({ op }) => op === 'SEND_F').length;
    expect(new Set(asked).size).toBe(asked.length);
    expect(asked).toHaveLength(plan.microBatches.length * plan.stages.length + sends);
    expect(sends).toBeGreaterThan(0);
  });
});
