import { describe, expect, it } from 'vitest';
import { answerTo } from '../autoplan/wishes.ts';
import { invariant, peerId } from '../base.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { script } from '../testing/script.ts';
import type { PlanAnswer } from './events.ts';
import { snapshot } from './snapshot.ts';

const OPTIONS = { layers: 3, steps: 6 };
const TERMS = rehearsalTerms(OPTIONS);

/** The equal split of these. */
function planOf(...names: string[]): Extract<PlanAnswer, { answer: 'plan' }> {
  const plan = TERMS.makePlan(names.map(peerId), new Map());
  invariant(plan.ok, 'there is a plan');
  return { answer: 'plan', plan: plan.value, reason: 'it is faster' };
}
const STAYS: PlanAnswer = { answer: 'stays' };

/** Who is not forced to change the plan is answered later. */
function training(...names: string[]) {
  const swarm = script(OPTIONS, TERMS, (wanted) =>
    wanted.purpose === 'arrival' ? null : answerTo(wanted, TERMS.makePlan),
  );
  swarm.join(...names);
  swarm.settle('* report');
  swarm.trace();
  return swarm;
}

/** Every plan takes its time. */
function waiting(...names: string[]) {
  const swarm = script(OPTIONS, TERMS, () => null);
  swarm.join(...names);
  return swarm;
}

describe('a change of plan that nothing forces', () => {
  it('[CO70] a newcomer waits for a plan, which takes over at the next boundary without a roll-back', () => {
    const swarm = training('a');
    swarm.join('b');
    expect(swarm.trace()).toEqual(['plan wanted arrival: a b']);
    swarm.settleOne();
    expect(swarm.trace()).toEqual(['commit 0', 'a < committed e1 step 0', 'a < start e1 step 1']);
    expect(snapshot(swarm.run.state, 0).donors.map(({ state }) => state)).toEqual(['computing', 'joining']);
    swarm.answer(planOf('a', 'b'), 1);
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

  it('[CO70] it may leave a member out, who hands over and is spare', () => {
    const swarm = training('a');
    swarm.answer(planOf('a'));
    swarm.join('b');
    swarm.answer(planOf('b'));
    swarm.settleOne();
    swarm.settle('* report');
    expect(swarm.trace().slice(-2)).toEqual(['a < standby spare', 'b < start e2 step 1']);
  });

  it('that the plan stays tells those whom it does not use', () => {
    const swarm = training('a');
    swarm.join('b');
    swarm.trace();
    swarm.answer(STAYS, 1);
    expect(swarm.trace()).toEqual(['b < standby spare']);
    expect(snapshot(swarm.run.state, 0).donors.map(({ state }) => state)).toEqual(['computing', 'spare']);
    swarm.settle();
    expect(swarm.run.store.epoch).toBe(1);
  });

  it('whoever hands over is let go when that is done, not when the next plan is found to stay', () => {
    const swarm = training('a');
    swarm.join('b');
    swarm.answer(planOf('b'));
    swarm.settle('* ready');
    swarm.trace();
    swarm.answer(STAYS);
    expect(swarm.trace()).toEqual([]);
    swarm.settleOne();
    expect(swarm.trace()).toEqual(['a < standby spare', 'b < start e2 step 1']);
  });

  it('whoever hands over and asks to go is let go when that is done', () => {
    for (const [button, state] of [
      ['pause', 'paused'],
      ['leave', 'left'],
    ] as const) {
      const swarm = training('a');
      swarm.join('b');
      swarm.answer(planOf('b'));
      swarm.settle('* ready');
      swarm.trace();
      swarm.say('a', { type: button });
      expect(swarm.trace()).toEqual([]);
      swarm.settleOne();
      expect(swarm.trace()).toEqual([`a < standby ${state}`, 'b < start e2 step 1']);
    }
  });

  it('[CO70] one that names someone who has gone since is none', () => {
    const swarm = training('a');
    swarm.join('b');
    swarm.answer(planOf('a', 'b'));
    swarm.gone('b');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.epoch).toBe(1);
  });

  it('[CO70] whoever leaves is replaced by it where it fits those who stay', () => {
    for (const [proposed, next] of [
      [['b'], 'epoch 3 b: a is leaving'],
      [['a', 'c'], 'epoch 3 b c: a is leaving'],
    ] as const) {
      const swarm = training('a', 'b', 'c');
      swarm.answer(planOf('a', 'b'));
      swarm.settleOne();
      swarm.settle('* report');
      swarm.answer(planOf(...proposed));
      swarm.say('a', { type: 'leave' });
      swarm.settle('* ready');
      expect(swarm.trace()).toContain(next);
    }
  });

  it('[CO70] nobody proposes anything to a run without a plan', () => {
    const swarm = script({ ...OPTIONS, expectedDonors: 2 });
    swarm.join('a');
    swarm.answer(planOf('a'));
    expect(swarm.run.state.proposal).toBeNull();
    swarm.join('b');
    expect(swarm.trace()[0]).toBe('epoch 1 a b: enough donors are here');
  });
});

describe('plans that take their time', () => {
  it('where nothing can go on without a plan the run waits for it, and says so', () => {
    const swarm = waiting('a');
    expect(swarm.trace()).toEqual(['plan wanted now: a']);
    expect(swarm.run.state.phase.name).toBe('planning');
    expect(snapshot(swarm.run.state, 0)).toMatchObject({
      phase: 'preparing',
      sentence: 'Working out who does what, for 1 donor, before step 1.',
    });
    swarm.answer(planOf('a'), 0);
    expect(swarm.trace()).toEqual(['epoch 1 a: enough donors are here', 'a < prepare e1 step 0 loaded']);
  });

  it('what the donors cannot have ends the reason, also of the first plan and where one is lost', () => {
    const swarm = waiting('a', 'b');
    const instead = 'these donors cannot have interleaved as asked for: 1f1b';
    swarm.answer({ ...planOf('a', 'b'), instead }, 1);
    swarm.settle('* report');
    swarm.gone('a');
    swarm.answer({ ...planOf('b'), instead }, 2);
    const reasons = swarm.trace().flatMap((line) => /^epoch \d [a-z ]+: (.*)/.exec(line)?.[1] ?? []);
    expect(reasons).toEqual([
      `enough donors are here; ${instead}`,
      expect.stringMatching(/^a .*; these donors cannot/),
    ]);
  });

  it('an answer for donors that are others by now is passed over; it was asked anew', () => {
    const swarm = waiting('a', 'b');
    expect(swarm.trace()).toEqual(['plan wanted now: a', 'plan wanted now: a b']);
    swarm.answer(planOf('a'), 0);
    expect(swarm.run.state.phase.name).toBe('planning');
    swarm.gone('a');
    expect(swarm.trace()).toEqual(['plan wanted now: b']);
    swarm.answer(planOf('a', 'b'), 1);
    swarm.answer({ answer: 'none', reason: 'it is too small' }, 2);
    swarm.answer(planOf('b'), 2);
    expect(swarm.run.state.phase).toEqual({
      name: 'waiting',
      lack: { of: 'plan', reason: 'it is too small' },
    });
    swarm.gone('b');
    expect(swarm.run.state.phase).toEqual({ name: 'waiting', lack: { of: 'donor' } });
  });

  it('[CO7] steps go on until it is known who takes over from a donor that wants to go', () => {
    const swarm = waiting('a', 'b');
    swarm.answer(planOf('a', 'b'), 1);
    swarm.settle('* report');
    swarm.trace();
    swarm.say('a', { type: 'leave' });
    expect(swarm.trace()).toEqual(['plan wanted departure: b']);
    for (let report = 0; report < 2; report++) swarm.settleOne();
    expect(swarm.trace()).toEqual(['commit 0', 'a b < committed e1 step 0', 'a b < start e1 step 1']);
    swarm.answer(planOf('b'), 2);
    swarm.settle('* ready');
    expect(swarm.trace().slice(-2)).toEqual(['epoch 2 b: a is leaving', 'b a < prepare e2 step 2 handed over']);
  });

  it('[CO7] where nobody can take over, the state is saved first', () => {
    const swarm = waiting('a');
    swarm.answer(planOf('a'), 0);
    swarm.settle('* report');
    swarm.say('a', { type: 'pause' });
    swarm.answer({ answer: 'none', reason: 'there is no donor' }, 1);
    swarm.trace();
    swarm.settle();
    expect(swarm.trace()).toEqual([
      'commit 0',
      'a < committed e1 step 0 checkpoint',
      'checkpoint 1',
      'a < abandon e1',
      'a < standby paused',
    ]);
    expect(swarm.run.state.phase.name).toBe('waiting');
  });

  it('[CO23] those who have the state wait for another plan where a newcomer is lost on the way, and else go on with their own', () => {
    for (const [answer, epoch] of [
      [planOf('a'), 'epoch 3 a: b is gone'],
      [{ answer: 'none', reason: 'nothing fits' } as const, 'epoch 3 a: b is gone'],
    ] as const) {
      const swarm = waiting('a');
      swarm.answer(planOf('a'), 0);
      swarm.settle('* report');
      swarm.join('b', 'c');
      swarm.answer(planOf('a', 'b', 'c'), 2);
      swarm.settle('* ready');
      swarm.trace();
      swarm.gone('b');
      expect(swarm.trace()).toEqual(['a c < abandon e2', 'plan wanted now: a']);
      swarm.answer(answer, 3);
      const isAlone = answer.answer === 'plan';
      // Where they cannot alone, newcomers are looked at too.
      if (!isAlone) {
        expect(swarm.trace()).toEqual(['plan wanted now: a c']);
        swarm.answer(answer, 4);
      }
      const [begun, prepared] = swarm.trace();
      expect(begun).toBe(epoch);
      expect(prepared).toBe('a < prepare e3 step 1 handed over');
      swarm.settle();
      swarm.answer(STAYS, isAlone ? 4 : 5);
      swarm.settle();
      expect(swarm.run).toMatchObject({ ended: 'finished', store: { generation: 0 } });
    }
  });

  it('the step that waited for a newcomer waits until it is known whether a plan uses it', () => {
    for (const [answer, epoch] of [
      [planOf('a', 'b'), 2],
      [STAYS, 1],
    ] as const) {
      const swarm = waiting('a');
      swarm.answer(planOf('a'), 0);
      swarm.hold('everyStep');
      swarm.settle();
      expect(swarm.run.state.phase.name).toBe('holding');
      swarm.join('b');
      swarm.hold('none');
      expect(swarm.run.state.phase.name).toBe('holding');
      swarm.answer(answer, 1);
      swarm.settle('* report');
      expect(swarm.run.state).toMatchObject({ epoch, phase: { name: 'training', step: 0 } });
    }
  });

  it('a pause while a plan is looked for takes effect at once', () => {
    const swarm = waiting('a');
    swarm.operator('pause');
    expect(swarm.run.state.phase.name).toBe('paused');
    swarm.answer(planOf('a'), 0);
    expect(swarm.run.state.phase.name).toBe('paused');
  });
});

describe('donors who go one after the other', () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const epochs = (lines: readonly string[]) => lines.filter((line) => line.startsWith('epoch'));
  function computing() {
    const swarm = script({ layers: 8, steps: 6 });
    swarm.join(...names);
    swarm.settle('* report');
    swarm.trace();
    return swarm;
  }

  it('cost one plan together, made when nobody has gone for half a second', () => {
    const swarm = computing();
    for (const name of ['a', 'c', 'e', 'g']) {
      swarm.vanish(name);
      swarm.pass(250);
      swarm.tick();
    }
    expect(epochs(swarm.trace())).toEqual([]);
    swarm.pass(249);
    swarm.tick();
    expect(epochs(swarm.trace())).toEqual([]);
    swarm.pass(1);
    swarm.tick();
    expect(epochs(swarm.trace())).toEqual(['epoch 9 b d f h: a is gone']);
  });

  it('are not waited for longer than two seconds', () => {
    const swarm = computing();
    const before = swarm.run.state.departures;
    expect(before).toBeNull();
    for (const name of names.slice(0, 6)) {
      swarm.vanish(name);
      swarm.pass(400);
    }
    expect(epochs(swarm.trace())).toEqual(['epoch 9 g h: a is gone']);
  });

  it('leave the last one to go on at once', () => {
    const swarm = script({ steps: 6 });
    swarm.join('a', 'b');
    swarm.settle('* report');
    swarm.trace();
    swarm.vanish('b');
    expect(epochs(swarm.trace())).toEqual(['epoch 3 a: b is gone']);
  });
});
