import { describe, expect, it } from 'vitest';
import { invariant, peerId } from '../base.ts';
import { rehearsalConfig } from '../testing/rehearsal.ts';
import { script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

const OPTIONS = { layers: 3, steps: 6, awaitsProposals: true };

/** What another part of the server would propose: the equal split of these. */
function proposal(...names: string[]) {
  const plan = rehearsalConfig(OPTIONS).makePlan(names.map(peerId), new Map());
  invariant(plan.ok, 'there is a plan');
  return { plan: plan.value, reason: 'it is faster' };
}

function training(...names: string[]) {
  const swarm = script(OPTIONS);
  swarm.join(...names);
  swarm.settle('* report');
  swarm.trace();
  return swarm;
}

describe('plans that are judged elsewhere', () => {
  it('[CO25] a newcomer waits for a proposal, which takes over at the next boundary without a roll-back', () => {
    const swarm = training('a');
    swarm.join('b');
    swarm.settleOne();
    expect(swarm.trace()).toEqual(['commit 0', 'a < committed e1 step 0', 'a < start e1 step 1']);
    expect(snapshot(swarm.run.state, 0).donors.map(({ state }) => state)).toEqual(['computing', 'spare']);
    swarm.propose(proposal('a', 'b'));
    expect(swarm.trace()).toEqual([]);
    swarm.settle('* ready');
    expect(swarm.trace()).toEqual([
      'commit 1',
      'a < committed e1 step 1',
      'epoch 2 a b: it is faster',
      'a b < prepare e2 step 2 handed over',
    ]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store).toMatchObject({ generation: 0, epoch: 2 });
  });

  it('[CO25] a proposal may leave a member out, who hands over and is spare', () => {
    const swarm = script(OPTIONS);
    swarm.join('a');
    swarm.settle('* report');
    swarm.propose(proposal('a'));
    swarm.join('b');
    swarm.propose(proposal('b'));
    swarm.settleOne();
    swarm.settle('* report');
    expect(swarm.trace().slice(-2)).toEqual(['a < standby spare', 'b < start e2 step 1']);
  });

  it('[CO25] that the plan stays tells those whom it does not use', () => {
    const swarm = training('a');
    swarm.join('b');
    swarm.propose(null);
    expect(swarm.trace()).toEqual(['b < standby spare']);
    swarm.settle();
    expect(swarm.run.store.epoch).toBe(1);
  });

  it('[CO25] whoever hands over is let go when that is done, not when the next plan is found to stay', () => {
    const swarm = training('a');
    swarm.join('b');
    swarm.propose(proposal('b'));
    swarm.settle('* ready');
    swarm.trace();
    swarm.propose(null);
    expect(swarm.trace()).toEqual([]);
    swarm.settleOne();
    expect(swarm.trace()).toEqual(['a < standby spare', 'b < start e2 step 1']);
  });

  it('[CO25] whoever hands over and asks to go is let go when that is done', () => {
    for (const [button, state] of [
      ['pause', 'paused'],
      ['leave', 'left'],
    ] as const) {
      const swarm = training('a');
      swarm.join('b');
      swarm.propose(proposal('b'));
      swarm.settle('* ready');
      swarm.trace();
      swarm.say('a', { type: button });
      expect(swarm.trace()).toEqual([]);
      swarm.settleOne();
      expect(swarm.trace()).toEqual([`a < standby ${state}`, 'b < start e2 step 1']);
    }
  });

  it('[CO25] a proposal that names someone who has gone since is none', () => {
    const swarm = training('a');
    swarm.join('b');
    swarm.propose(proposal('a', 'b'));
    swarm.gone('b');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.epoch).toBe(1);
  });

  it('[CO25] whoever leaves is replaced at once, by the proposal where it fits those who stay', () => {
    for (const [proposed, next] of [
      [['b'], 'epoch 3 b: a is leaving'],
      [['a', 'c'], 'epoch 3 b c: a is leaving'],
    ] as const) {
      const swarm = training('a', 'b', 'c');
      swarm.propose(proposal('a', 'b'));
      swarm.settleOne();
      swarm.settle('* report');
      swarm.propose(proposal(...proposed));
      swarm.say('a', { type: 'leave' });
      swarm.settle('* ready');
      expect(swarm.trace()).toContain(next);
    }
  });

  it('[CO25] nothing is proposed to a run without a plan', () => {
    const swarm = script({ ...OPTIONS, expectedDonors: 2 });
    swarm.join('a');
    swarm.propose(proposal('a'));
    expect(swarm.run.state.proposal).toBeNull();
    swarm.join('b');
    expect(swarm.trace()[0]).toBe('epoch 1 a b: donors are there');
  });
});
