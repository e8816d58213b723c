import { describe, expect, it } from 'vitest';
import { script } from '../testing/script.ts';
import { nextDeadline } from './state.ts';

/** `a` trains; then these come. */
function trainingBeside(...names: string[]) {
  const swarm = script({ layers: 3, steps: 300 });
  swarm.warmUpSlowly();
  swarm.join('a');
  swarm.settle('a report');
  swarm.settleOne();
  swarm.trace();
  swarm.join(...names);
  return swarm;
}

/** Steps of the plan in force, one after the other. */
const steps = (swarm: ReturnType<typeof script>, count: number, ...withhold: string[]): void => {
  const { committedSteps } = swarm.run.state;
  while (swarm.run.state.committedSteps < committedSteps + count) swarm.settleOne(...withhold);
};

/** A step a second, and whatever deadline passes meanwhile. */
function trainFor(swarm: ReturnType<typeof script>, seconds: number, ...withhold: string[]): void {
  for (let second = 0; second < seconds; second++) {
    steps(swarm, 1, ...withhold);
    swarm.pass(1_000);
    swarm.tick();
  }
}
const told = (swarm: ReturnType<typeof script>): string[] =>
  swarm.trace().filter((line) => !/commit|start|checkpoint/.test(line));

describe('a plan that may take over', () => {
  it('[CO70] gets ready while the one in force trains on, and takes over at the boundary after all are warm', () => {
    const swarm = trainingBeside('b');
    expect(swarm.trace()).toEqual(['a b < warm']);
    steps(swarm, 3, '* warmed');
    expect(swarm.trace()).not.toContainEqual(expect.stringMatching(/^epoch/));
    swarm.say('a', { type: 'warmed', number: 0 });
    swarm.say('b', { type: 'warmed', number: 0 });
    expect(swarm.trace()).toEqual([]);
    steps(swarm, 1, '* warmed');
    expect(swarm.trace()).toEqual([
      'commit 4',
      'a < committed e1 step 4',
      'epoch 2 a b: b joins',
      'a b < prepare e2 step 5 handed over',
    ]);
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
  });

  it('[CO71] costs the others no step where a stranger never gets warm; it waits, and goes the second time', () => {
    const swarm = trainingBeside('b', 'c');
    swarm.trace();
    trainFor(swarm, 60, 'b warmed');
    // The plan for all three is given up; the next one has no place for b, who is spare for a minute.
    expect(told(swarm)).toEqual(['b < standby spare', 'a c < warm']);
    trainFor(swarm, 59, 'b warmed');
    expect(told(swarm)).toEqual(['epoch 2 a c: c joins', 'a c < prepare e2 step 63 handed over']);
    trainFor(swarm, 1, 'b warmed');
    expect(told(swarm)).toEqual(['a b c < warm']);
    trainFor(swarm, 29, 'b warmed');
    expect(told(swarm)).toEqual([]);
    trainFor(swarm, 1, 'b warmed');
    expect(told(swarm)).toEqual(['refuse b tooLate']);
    expect(swarm.run).toMatchObject({ state: { committedSteps: 151 }, store: { generation: 0, epoch: 2 } });
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('[CO71] a member of the plan in force that is late is asked once more, then it goes', () => {
    const swarm = trainingBeside('b');
    swarm.trace();
    trainFor(swarm, 60, 'a warmed');
    expect(told(swarm)).toEqual(['a b < warm']);
    trainFor(swarm, 30, 'a warmed');
    expect(told(swarm)).toContain('refuse a tooLate');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('[CO71] whoever was warm and does not get ready costs no more than a short hand-over', () => {
    const swarm = trainingBeside('b');
    swarm.settle('b ready');
    const { phase } = swarm.run.state;
    expect(phase).toMatchObject({ name: 'preparing', isWarm: true, waitingFor: ['b'] });
    const deadline = nextDeadline(swarm.run.state) ?? 0;
    expect(deadline - (phase.name === 'preparing' ? phase.startedAt : 0)).toBe(20_000);
    swarm.trace();
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'refuse b tooLate',
      'a < abandon e2',
      'epoch 3 a: b did not get ready in time',
      'a < prepare e3 step 3 handed over',
    ]);
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
  });

  it('[CO70] a donor that goes by its button works until the others are warm', () => {
    const swarm = script({ steps: 30, expectedDonors: 2 });
    swarm.warmUpSlowly();
    swarm.join('a', 'b');
    steps(swarm, 1);
    swarm.say('b', { type: 'leave' });
    steps(swarm, 3, '* warmed');
    expect(swarm.run.state.epoch).toBe(1);
    swarm.settle();
    expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0, epoch: 2 } });
  });

  it('[CO33] [CO14] an answer that was never asked for is refused, one to an older plan is passed over', () => {
    const swarm = trainingBeside('b');
    swarm.gone('b');
    swarm.trace();
    swarm.say('a', { type: 'warmed', number: 0 });
    expect(swarm.trace()).toEqual([]);
    swarm.say('a', { type: 'warmed', number: 1 });
    expect(swarm.trace()[0]).toBe('refuse a outOfOrder');
  });

  it('the step that waits for a newcomer waits until it is warm, and no longer than it may take', () => {
    for (const comes of [true, false]) {
      const swarm = script({ steps: 2 });
      swarm.warmUpSlowly();
      swarm.hold('lastStep');
      swarm.join('a');
      swarm.settle();
      swarm.join('b');
      swarm.hold('none');
      swarm.settle('b warmed');
      expect(swarm.run.state).toMatchObject({ committedSteps: 1, phase: { name: 'holding' } });
      if (!comes) swarm.expire();
      swarm.settle(...(comes ? [] : ['b warmed']));
      expect(swarm.run).toMatchObject({ ended: 'finished', store: { epoch: comes ? 2 : 1 } });
    }
  });
});
