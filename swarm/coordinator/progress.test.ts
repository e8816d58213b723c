/** Who goes when a step is held up, by what heartbeats say: told by a coordinator with donors that say what the test says. */
import { expect, it } from 'vitest';
import type { PeerId } from '../base.ts';
import type { StepProgress } from '../messages/messages.ts';
import { script } from '../testing/script.ts';

/** Two donors at step 0, neither has reported. */
function training() {
  const swarm = script({ expectedDonors: 2 });
  swarm.join('a', 'b');
  swarm.settle('* report');
  swarm.trace();
  const beat = (name: string, done: number, waitsFor: PeerId[] = [], part: Partial<StepProgress> = {}) =>
    swarm.say(name, {
      type: 'heartbeat',
      at: { epoch: 1, step: 0, done, waitsFor, hasReported: false, ...part },
    });
  return { swarm, beat };
}
const GOES = ['refuse b tooLate', 'a < abandon e1'];
const FORGIVEN = ['a b < abandon e1', 'epoch 2 a b: b did not answer in time'];

it('[CO75] who says twice that it reported what never came goes at once', () => {
  const { swarm, beat } = training();
  swarm.pass(2_000);
  beat('b', 5, [], { hasReported: true });
  expect(swarm.trace()).toEqual([]);
  swarm.pass(1_000);
  beat('b', 5, [], { hasReported: true });
  expect(swarm.trace().slice(0, 2)).toEqual(GOES);
});

it('[CO75] not for a report of the step before, of another epoch, or one that came', () => {
  const { swarm, beat } = training();
  const { state } = swarm.run;
  for (const part of [{ epoch: 0 }, { epoch: 2 }]) beat('b', 5, [], { ...part, hasReported: true });
  beat('stranger', 5, [], { hasReported: true });
  expect(swarm.run.state).toBe(state);
  swarm.settle('a report');
  swarm.trace();
  swarm.pass(2_000);
  for (let time = 0; time < 3; time++) beat('b', time, [], { hasReported: true });
  for (let time = 0; time < 3; time++) beat('a', time, [], { step: 7, hasReported: true });
  expect(swarm.trace()).toEqual([]);
});

it('[CO76] once a step is late, who does nothing and waits for nobody goes; who waits for it stays', () => {
  const { swarm, beat } = training();
  swarm.pass(2_000);
  beat('a', 3, [swarm.peer('b')]);
  beat('b', 4);
  swarm.expire();
  expect(swarm.trace().slice(0, 2)).toEqual(GOES);
});

it('[CO76] so does who says nothing of the step where others do', () => {
  const { swarm, beat } = training();
  swarm.pass(2_000);
  beat('a', 3, [swarm.peer('b')]);
  swarm.expire();
  expect(swarm.trace().slice(0, 2)).toEqual(GOES);
});

/** Step 0 is committed, and 1 begins to be late: `b` is still at 0 and does nothing there, `a` says this. */
function completing(isAtNext: boolean, waits: boolean) {
  const { swarm, beat } = training();
  for (const name of ['a', 'b']) swarm.settleOne(name === 'a' ? 'b *' : 'a *');
  expect(swarm.trace()).toContain('commit 0');
  for (let second = 0; second < 9; second++) {
    swarm.pass(1_000);
    beat('b', 7, [], { hasReported: true });
    beat('a', 3, waits ? [swarm.peer('b')] : [], isAtNext ? { step: 1 } : { hasReported: true });
  }
  swarm.expire();
  return swarm.trace();
}

it('[CO76] who still completes the step before is judged as ever where others have something to do too', () => {
  expect(completing(false, false).slice(-3, -1)).toEqual([
    'a b < abandon e1',
    'epoch 2 a b: a, b did not answer in time',
  ]);
});

it.each([true, false])(
  '[CO76] it goes where all others wait, and one of them for it (at the next step: %s)',
  (isAtNext) => {
    expect(completing(isAtNext, true).slice(0, 2)).toEqual(GOES);
  },
);

it('[CO76] what one says of the step before shows nobody else to be stuck', () => {
  const { swarm, beat } = training();
  for (const name of ['a', 'b']) swarm.settleOne(name === 'a' ? 'b *' : 'a *');
  swarm.trace();
  for (let second = 0; second < 9; second++) {
    swarm.pass(1_000);
    beat('a', second, [], { hasReported: true });
  }
  swarm.expire();
  expect(swarm.trace().slice(-3, -1)).toEqual(['a b < abandon e1', 'epoch 2 a b: a, b did not answer in time']);
});

it('[CO76] who is slow and gets on is judged as ever, and nobody goes where all are stuck', () => {
  const slow = training();
  slow.swarm.settle('b report');
  slow.swarm.pass(9_000);
  slow.beat('b', 4);
  slow.swarm.expire();
  expect(slow.swarm.trace().slice(-3, -1)).toEqual(FORGIVEN);
  const stuck = training();
  stuck.swarm.pass(2_000);
  for (const name of ['a', 'b']) stuck.beat(name, 4);
  stuck.swarm.expire();
  expect(stuck.swarm.trace()[1]).toBe('epoch 2 a b: a, b did not answer in time');
});
