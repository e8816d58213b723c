import { describe, expect, it } from 'vitest';
import { refusal } from '../base.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

describe('a run of donors', () => {
  it('[CO3] starts when everyone is ready, trains, saves and finishes', () => {
    const swarm = script({ steps: 2, expectedDonors: 2 });
    swarm.join('a', 'b');
    swarm.settle('b ready');
    expect(swarm.trace()).toEqual(['epoch 1 a b: enough donors are here', 'a b < prepare e1 step 0 loaded']);
    swarm.settle();
    expect(swarm.trace()).toEqual([
      'a b < start e1 step 0',
      'commit 0',
      'a b < committed e1 step 0',
      'a b < start e1 step 1',
      'commit 1',
      'a b < committed e1 step 1 checkpoint',
      'checkpoint 2',
      'a b < standby finished',
      'finished',
    ]);
  });

  it('[CO70] takes newcomers in at the next boundary, all with one plan, without a roll-back', () => {
    const swarm = script({ layers: 3, steps: 4 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.trace();
    swarm.join('b', 'c', 'd');
    expect(swarm.trace()).toEqual([]); // no plan is full yet: they join at the boundary, or hear that they are spare
    swarm.settle('b ready');
    expect(swarm.trace()).toEqual([
      'commit 0',
      'a < committed e1 step 0',
      'epoch 2 a b c: b joins',
      'a b c < prepare e2 step 1 handed over',
    ]);
    swarm.settle('a report');
    expect(swarm.trace()).toEqual(['d < standby spare', 'a b c < start e2 step 1']);
  });

  it('[CO36] hands over again, without a roll-back, when a newcomer is lost on the way', () => {
    const swarm = script({ steps: 4 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.join('b', 'c');
    swarm.settle('b ready');
    swarm.trace();
    swarm.gone('b');
    expect(swarm.trace()).toEqual(['a c < abandon e2', 'epoch 3 a: b is gone', 'a < prepare e3 step 1 handed over']);
    swarm.settle('* report');
    expect(swarm.trace()).toContain('epoch 4 a c: c joins');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('[CO36] goes back to the checkpoint when one who has the state is lost on the way', () => {
    const swarm = script({ steps: 4 });
    swarm.join('a', 'b');
    swarm.settle('* report');
    swarm.say('b', { type: 'leave' });
    swarm.settle('a ready');
    swarm.trace();
    swarm.gone('b');
    expect(swarm.trace()).toEqual([
      'a < abandon e3',
      'roll back 1 to 0: b is gone',
      'epoch 4 a: b is gone',
      'a < prepare e4 step 0 loaded',
    ]);
  });

  it('holds the last step until the donor that is awaited is here, and takes it in first', () => {
    const swarm = script({ steps: 2 });
    swarm.hold('lastStep');
    swarm.join('a');
    swarm.settle();
    expect(swarm.run.state.phase.name).toBe('holding');
    expect(snapshot(swarm.run.state, 0)).toMatchObject({ phase: 'preparing', committedSteps: 1 });
    swarm.trace();
    swarm.join('b');
    expect(swarm.trace()).toEqual(['epoch 2 a b: b joins', 'a b < prepare e2 step 1 handed over']);
    swarm.settle();
    expect(swarm.run.state.phase.name).toBe('holding');
    swarm.hold('none');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('no step starts while a newcomer is measured; the one in progress is committed', () => {
    const swarm = script({ steps: 4 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.hold('everyStep');
    swarm.trace();
    swarm.settle();
    expect(swarm.trace()).toEqual(['commit 0', 'a < committed e1 step 0']);
    expect(swarm.run.state.phase.name).toBe('holding');
    swarm.join('b');
    expect(swarm.trace()).toEqual(['epoch 2 a b: b joins', 'a b < prepare e2 step 1 handed over']);
    swarm.settle();
    expect(swarm.run.state).toMatchObject({ committedSteps: 1, phase: { name: 'holding' } });
    swarm.hold('lastStep');
    swarm.settle();
    expect(swarm.run.state).toMatchObject({ committedSteps: 3, phase: { name: 'holding' } });
    swarm.hold('none');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('one who is lost while the last step is held ends the plan as ever', () => {
    const swarm = script({ steps: 2 });
    swarm.hold('lastStep');
    swarm.join('a', 'b');
    swarm.settle();
    swarm.trace();
    swarm.gone('b');
    expect(swarm.trace().slice(1)).toEqual([
      'roll back 1 to 0: b is gone',
      'epoch 3 a: b is gone',
      'a < prepare e3 step 0 loaded',
    ]);
  });

  it('[CO70] keeps whom no plan can use as a spare, who comes in when one is lost', () => {
    const swarm = script({ layers: 2, steps: 4 });
    swarm.join('a', 'b');
    swarm.settle('a report');
    swarm.trace();
    swarm.join('c');
    expect(swarm.trace()).toEqual(['c < standby spare']);
    swarm.gone('a');
    expect(swarm.trace()).toEqual([
      ...['b < abandon e2', 'epoch 3 b: a is gone', 'b < prepare e3 step 0 loaded', 'c < standby spare'],
      ...['b < abandon e3', 'epoch 4 b c: c joins', 'b c < prepare e4 step 0 loaded'],
    ]);
  });

  it('[CO70] does not interrupt for a newcomer with whom no larger plan can be made', () => {
    const terms = rehearsalTerms({ steps: 3 });
    const swarm = script(
      {},
      {
        ...terms,
        makePlan: (peers, caps) => (peers.length > 1 ? refusal('one is enough') : terms.makePlan(peers, caps)),
      },
    );
    swarm.join('a');
    swarm.settle('a report');
    swarm.join('b');
    swarm.settle();
    expect(swarm.run.state.epoch).toBe(1);
    expect(swarm.run.ended).toBe('finished');
  });

  it('[CO70] says why no plan can be made, and waits', () => {
    const swarm = script({}, { ...rehearsalTerms({}), makePlan: () => refusal('the model is too large') });
    swarm.join('a');
    expect(swarm.run.state.phase).toEqual({
      name: 'waiting',
      lack: { of: 'plan', reason: 'the model is too large' },
    });
  });

  it('plans anew at once where nothing is committed since the checkpoint', () => {
    const swarm = script({});
    swarm.join('a', 'b');
    expect(swarm.trace()).toEqual([
      'epoch 1 a: enough donors are here',
      'a < prepare e1 step 0 loaded',
      'a < abandon e1',
      'epoch 2 a b: b joins',
      'a b < prepare e2 step 0 loaded',
    ]);
  });

  it('refuses who comes when the run is finished', () => {
    const swarm = script({ steps: 1 });
    swarm.join('a');
    swarm.settle();
    swarm.trace();
    swarm.join('b');
    expect(swarm.trace()).toEqual(['refuse b runFinished']);
    swarm.operator('stop');
    expect(swarm.trace()).toEqual(['stopped']);
  });

  it('[CO4] [RE30] goes back to the newest checkpoint after a restart, under a new epoch', () => {
    const swarm = script({ steps: 5, checkpointEverySteps: 2 });
    swarm.join('a');
    while (swarm.run.state.committedSteps < 3) swarm.settleOne();
    swarm.settle('a report');
    swarm.restart();
    swarm.trace();
    swarm.join('b');
    expect(swarm.trace()).toEqual([]);
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'roll back 3 to 2: the server started again from its store',
      'epoch 2 b: not everyone came back',
      'b < prepare e2 step 2 loaded',
    ]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    swarm.restart();
    expect(swarm.run.state.phase.name).toBe('finished');
  });
});
