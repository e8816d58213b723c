import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { script } from '../testing/script.ts';

describe('a donor that goes', () => {
  it('[CO14] passes over an upload that a roll-back overtook, also where no plan follows', () => {
    for (const survivor of [true, false]) {
      const swarm = script({ steps: 9, checkpointEverySteps: 3 });
      swarm.join(...(survivor ? ['a', 'b', 'c'] : ['a', 'b']));
      swarm.settle('* uploaded', 'a report');
      for (let step = 0; step < 3; step++) swarm.settleOne('* uploaded');
      const { epoch, committedSteps } = swarm.run.state;
      swarm.gone('b');
      if (!survivor) swarm.operator('pause');
      const shards = swarm.shardsOf('a').map((shard) => ({ ...shard, hash: 'a'.repeat(64) }));
      swarm.trace();
      swarm.say('a', { type: 'uploaded', epoch, step: Math.max(3, committedSteps), shards });
      expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([]);
    }
  });

  it('[CO7] lets a donor pause when its shards are safe, and takes it back in its old place', () => {
    const swarm = script({ steps: 9 });
    swarm.join('a', 'b');
    swarm.settle('* report');
    swarm.say('a', { type: 'pause' });
    swarm.trace();
    swarm.settle('b ready');
    expect(swarm.trace()).toEqual([
      'commit 0',
      'a b < committed e2 step 0',
      'epoch 3 b: a is pausing',
      'b a < prepare e3 step 1 handed over',
    ]);
    swarm.settle('b report');
    expect(swarm.trace()).toEqual(['a < standby paused', 'b < start e3 step 1']);
    expect(swarm.run.state.donors.map(({ wish }) => wish)).toEqual(['paused', 'compute']);
    swarm.say('a', { type: 'resume' });
    swarm.settle('* ready');
    expect(swarm.trace().slice(-2)).toEqual(['epoch 4 a b: a joins', 'a b < prepare e4 step 2 handed over']);
  });

  it('says that state lies in main memory no longer, and that it does again', () => {
    const terms = rehearsalTerms({ steps: 9 });
    const makePlan: typeof terms.makePlan = (offer, caps) => {
      const plan = terms.makePlan(offer, caps);
      if (!plan.ok || offer.length < 2) return plan;
      const state = plan.value.state.map(({ block, shards }) => ({
        block,
        shards: shards.map((shard) => ({ ...shard, in: 'host' as const })),
      }));
      return success({ ...plan.value, state });
    };
    const swarm = script({}, { ...terms, makePlan });
    const epochs = () => swarm.trace().filter((line) => line.startsWith('epoch'));
    swarm.join('a', 'b');
    swarm.settle('* report');
    epochs();
    swarm.say('a', { type: 'pause' });
    swarm.settle('b ready');
    expect(epochs()).toEqual(['epoch 3 b: a is pausing; state lies in main memory no longer']);
    swarm.settle('b report');
    swarm.say('a', { type: 'resume' });
    swarm.settle('* ready');
    expect(epochs()).toEqual(['epoch 4 a b: a joins; state lies in main memory from now on']);
  });

  it('[CO7] a resume before the boundary takes the wish to pause back', () => {
    const swarm = script({ steps: 2 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.say('a', { type: 'pause' });
    swarm.say('a', { type: 'resume' });
    swarm.trace();
    swarm.settle();
    expect(swarm.trace()).not.toContain('a < standby paused');
    expect(swarm.run.ended).toBe('finished');
  });

  it('[CO7] waits when the only donor leaves, and goes on with the next one from where it was', () => {
    const swarm = script({ steps: 3 });
    swarm.join('a');
    swarm.settle('a report');
    swarm.say('a', { type: 'leave' });
    swarm.settle();
    expect(swarm.trace().slice(-4)).toEqual([
      'a < committed e1 step 0 checkpoint',
      'checkpoint 1',
      'a < abandon e1',
      'a < standby left',
    ]);
    expect(swarm.run.state.phase.name).toBe('waiting');
    swarm.join('b');
    expect(swarm.trace()).toEqual(['epoch 2 b: enough donors are here', 'b < prepare e2 step 1 loaded']);
  });

  it('refuses who hands nothing over when a second one waited for it in vain, and loads the checkpoint', () => {
    const swarm = script({ layers: 1, steps: 9 });
    swarm.join('a');
    swarm.settleOne();
    swarm.join('b', 'c');
    swarm.say('a', { type: 'leave' });
    while (swarm.run.state.phase.name === 'training') swarm.settle('b ready', 'c ready');
    swarm.trace();
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'refuse b tooLate',
      'a < abandon e2',
      'epoch 3 c: b did not get ready in time',
      'c a < prepare e3 step 1 handed over',
    ]);
    swarm.settle('c ready');
    swarm.expire();
    expect(swarm.trace()).toEqual([
      'refuse a tooLate',
      'c < abandon e3',
      'roll back 1 to 0: c did not get ready in time',
      'epoch 4 c: c did not get ready in time',
      'c < prepare e4 step 0 loaded',
    ]);
  });

  it('[CO7] confirms pause and leave at once outside the plan', () => {
    const swarm = script({ layers: 1 });
    swarm.join('a', 'b');
    swarm.trace();
    swarm.say('b', { type: 'pause' });
    swarm.say('b', { type: 'resume' });
    swarm.say('b', { type: 'leave' });
    expect(swarm.trace()).toEqual(['b < standby paused', 'b < standby left']);
    expect(swarm.run.state.donors.map(({ peer }) => peer)).toEqual(['a']);
  });

  it('[CO8] goes back to the newest checkpoint when a member is lost', () => {
    const swarm = script({ steps: 9, checkpointEverySteps: 2, expectedDonors: 3 });
    swarm.join('a', 'b', 'c');
    while (swarm.run.state.committedSteps < 3) swarm.settleOne();
    swarm.settle('* report');
    swarm.trace();
    swarm.gone('b');
    expect(swarm.trace()).toEqual([
      'a c < abandon e1',
      'roll back 3 to 2: b is gone',
      'epoch 2 a c: b is gone',
      'a c < prepare e2 step 2 loaded',
    ]);
    expect(swarm.run.state.generation).toBe(1);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.commits.map(({ step }) => step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('[CO8] is no roll-back where nothing was committed since the checkpoint', () => {
    const swarm = script({ steps: 9, checkpointEverySteps: 2, expectedDonors: 2 });
    swarm.join('a', 'b');
    while (swarm.run.state.newestCheckpointStep < 2) swarm.settleOne();
    swarm.trace();
    swarm.gone('b');
    expect(swarm.trace()).toEqual(['a < abandon e1', 'epoch 2 a: b is gone', 'a < prepare e2 step 2 loaded']);
    expect(swarm.run.state.generation).toBe(0);
  });

  it('does not miss a member whose shards are in when the run only waits for the others', () => {
    const swarm = script({ steps: 1, expectedDonors: 2 });
    swarm.join('a', 'b');
    swarm.settle('a uploaded');
    swarm.gone('b');
    swarm.settle();
    expect(swarm.trace().slice(-3)).toEqual(['checkpoint 1', 'a < standby finished', 'finished']);
  });

  it('[CO8] goes back at once when a member is lost whose shards the run was waiting for', () => {
    const swarm = script({ steps: 1, expectedDonors: 2 });
    swarm.join('a', 'b');
    swarm.settle('a uploaded');
    swarm.trace();
    swarm.gone('a');
    expect(swarm.trace().slice(0, 2)).toEqual(['b < abandon e1', 'roll back 1 to 0: a is gone']);
  });

  it('[CO8] does not mind a spare that is lost', () => {
    const swarm = script({ layers: 1 });
    swarm.join('a', 'b');
    swarm.trace();
    swarm.gone('b');
    expect(swarm.trace()).toEqual([]);
  });
});
