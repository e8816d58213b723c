import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { peerId, seededRandom } from '../base.ts';
import type { ScheduleName } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { loopedPlan } from '../schedule/placement.ts';
import { barsOf, type SimulationOutcome } from '../simulate/outcome.ts';
import { parseSimulateProblem, type SimulateProblem } from '../simulate/problem.ts';
import { fixedOrderEnds, messageDrivenEnds } from './bruteForce.ts';
import { run, upTo } from './chain.ts';
import { timelineProblems } from './checkTimeline.ts';

const ends = (outcome: SimulationOutcome): Map<string, number> =>
  new Map(barsOf(outcome).map(({ action, end }) => [formatAction(action), end]));

/** Whole numbers, so that sums are exact in any order. */
function randomProblem(seed: number, schedule: ScheduleName): SimulateProblem {
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

test.each(['eager', 'varuna', '1f1b', 'interleaved'] as const)('[SC4] %s on slow links in bad weather', (schedule) => {
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
