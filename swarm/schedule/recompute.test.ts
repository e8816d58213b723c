import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { simulate } from '../simulate/simulate.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { formatSchedule } from '../testing/scheduleText.ts';
import { type Fits, withRecompute } from '../testing/withRecompute.ts';
import { makespanSeconds } from '../timeline/timeline.ts';
import type { Schedule } from './action.ts';
import { addRecompute, addTransfers, build } from './lower.ts';
import { oneForwardOneBackward } from './oneForwardOneBackward.ts';
import { loopedPlan } from './placement.ts';

const peers = [0, 1, 2, 3].map((index) => peerId(`d${index}`));
const pipeline = loopedPlan(peers, 8, 1);
const ORDER = oneForwardOneBackward(pipeline);
const roomFor =
  (most: number): Fits =>
  (_peer, _stage, inFlight) =>
    inFlight <= most;

test.each([
  [0, [0, 1, 2, 3]],
  [1, [0, 1, 2]],
  [2, [0, 1]],
  [4, []],
])('1f1b of four stages with room for %i activations recomputes in stages %j', (most, expected) => {
  const { stages } = withRecompute(pipeline, ORDER, roomFor(most));
  const recomputing = stages.flatMap(({ members }, stage) => (members[0]?.recompute.length ? [stage] : []));
  expect(recomputing).toEqual(expected);
});

test('every layer of the stage, or none', () => {
  const plan = equalSplit(outlineModel(5, true), 4, peers.slice(0, 2), { microBatches: 4, schedule: '1f1b' });
  const { stages } = withRecompute(plan, build(plan), roomFor(1));
  expect(stages.map(({ members }) => members[0]?.recompute)).toEqual([[0, 1, 2], []]);
});

test('F=R=1, B=2, p=4, m=8: 44 where each recompute waits for its gradient, 41 where it does not, 33 without', () => {
  const seconds = (most: number, order: (plan: Plan) => Schedule, backwardSeconds: number): number => {
    const plan = withRecompute(pipeline, ORDER, roomFor(most));
    const timeline = simulate({ tied: false }, plan, order(plan), {
      forwardSeconds: () => 1,
      backwardSeconds: () => backwardSeconds,
      link: () => ({ latencySeconds: 0, bytesPerSecond: null }),
      activationBytes: () => 0,
      gradientBytes: () => 0,
    });
    return makespanSeconds(timeline);
  };
  expect(seconds(0, () => ORDER, 3)).toBe(44);
  // Room for 0 to 4: recompute everywhere, but in the last stage, in the last two, in the first one alone, nowhere.
  const hidden = [0, 1, 2, 3, 4].map((most) => seconds(most, (plan) => addRecompute(plan, ORDER), 2));
  expect(hidden).toEqual([41, 39, 38, 37, 33]);
});

test('[SC5] a recompute is issued before its gradient is received', () => {
  const plan = withRecompute(loopedPlan(peers.slice(0, 2), 2, 1), ORDER, () => false);
  const lists = formatSchedule(addTransfers(plan, addRecompute(plan, oneForwardOneBackward(plan))));
  expect(lists.split('\n')[0]).toBe('d0: 0F0 0SEND_F0 0F1 0SEND_F1 0R0 0RECV_B0 0B0 0R1 0RECV_B1 0B1');
});
