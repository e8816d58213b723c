import fc from 'fast-check';
import { expect, test } from 'vitest';
import { peerId, seededRandom } from '../base.ts';
import { build, stepSchedule } from '../schedule/lower.ts';
import { loopedPlan } from '../schedule/placement.ts';
import type { Costs } from '../simulate/clock.ts';
import { simulate } from '../simulate/simulate.ts';
import type { Span } from '../timeline/timeline.ts';
import { timelineProblems } from './checkTimeline.ts';
import { randomPlan } from './randomPlan.ts';
import { parseAction } from './scheduleText.ts';

const [a, b] = [peerId('a'), peerId('b')];
const plan = loopedPlan([a, b], 2, 1);
const timeline = (
  ...rows: readonly (readonly [peer: 'a' | 'b', action: string, start: number, end: number])[]
): Span[] =>
  rows.map(([peer, action, startSeconds, endSeconds]) => ({
    peer: peer === 'a' ? a : b,
    action: parseAction(action),
    startSeconds,
    endSeconds,
  }));
const GOOD = [
  ['a', '0F0', 0, 1],
  ['a', '0F1', 1, 2],
  ['b', '1F0', 1, 2],
  ['b', '1B0', 2, 4],
  ['b', '1F1', 4, 5],
  ['a', '0B0', 4, 6],
  ['b', '1B1', 5, 7],
  ['a', '0B1', 7, 9],
] as const;

test('[SC4] a timeline that can be has no problem', () => {
  expect(timelineProblems({ tied: false }, plan, timeline(...GOOD))).toEqual([]);
});

test('[SC4] two things at once are shown with their place', () => {
  const rows = GOOD.map((row) => (row[1] === '1F1' ? (['b', '1F1', 3, 5] as const) : row));
  expect(timelineProblems({ tied: false }, plan, timeline(...rows))).toEqual([
    {
      rule: 'SC4',
      text: ['this cannot be:', 'a: 0F0 0F1 0B0 0B1', 'b: 1F0 1B0 [1F1] 1B1  starts at 3 s, but 1B0 ends at 4 s'].join(
        '\n',
      ),
    },
  ]);
});

test('[SC4] what starts before its input is there, or without it, is shown with what it needs', () => {
  const early = GOOD.map((row) => (row[1] === '0B0' ? (['a', '0B0', 3, 6] as const) : row));
  expect(timelineProblems({ tied: false }, plan, timeline(...early))[0]?.text).toContain(
    'a: 0F0 0F1 [0B0] 0B1  starts at 3 s, but 1B0 of b ends at 4 s',
  );
  const lacking = GOOD.filter(([, action]) => action !== '1B1');
  expect(timelineProblems({ tied: false }, plan, timeline(...lacking))[0]?.text).toContain(
    'a: 0F0 0F1 0B0 [0B1]  needs 1B1 of b, which is nowhere',
  );
});

test('[SC4] whatever the simulator answers can be, before and after lowering', () => {
  fc.assert(
    fc.property(fc.integer(), fc.constantFrom(null, 1, 4), (seed, bytesPerSecond) => {
      const random = seededRandom(seed);
      const { model, plan: drawn } = randomPlan(random);
      const costs: Costs = {
        forwardSeconds: random,
        backwardSeconds: random,
        stateSeconds: random,
        link: () => ({ latencySeconds: random(), bytesPerSecond }),
        activationBytes: random,
        gradientBytes: random,
      };
      const plan = { ...drawn, schedule: seed % 2 === 0 ? ('gpipe' as const) : ('1f1b' as const) };
      for (const schedule of [build(plan), stepSchedule(plan)])
        expect(timelineProblems(model, plan, simulate(model, plan, schedule, costs))).toEqual([]);
    }),
    { seed: 3, numRuns: 100 },
  );
});
