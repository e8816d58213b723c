import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import type { ResumedMessage } from '../messages/messages.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { ringReplicas } from '../testing/ringReplicas.ts';
import { script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

type Swarm = ReturnType<typeof script>;
type Claim = Partial<Pick<ResumedMessage, 'generation' | 'role' | 'handedOver'>>;

/** Three donors at step 7, the newest checkpoint being 5; then the server is killed and is back. */
function killedAtSeven(config: Parameters<typeof script>[0] = {}): Swarm {
  const swarm = script({ steps: 12, checkpointEverySteps: 5, ...config });
  swarm.join('a', 'b', 'c');
  swarm.settle('* report');
  while (swarm.run.state.committedSteps < 7) swarm.settleOne();
  swarm.restart();
  swarm.trace();
  return swarm;
}

/** Back under its name; by default with what an honest one has. */
function comeBack(swarm: Swarm, name: string, claim: Claim = {}): void {
  swarm.join(name);
  const epoch = swarm.run.store.lastCommit?.epoch ?? 0;
  swarm.say(name, { type: 'resumed', generation: 0, role: { epoch, step: 7 }, handedOver: null, ...claim });
}

const ROLLED_BACK = 'roll back 7 to 5: the server started again from its store';

describe('the server was killed, and is back', () => {
  it('[RE30] when all of the plan are back with its state it goes on under a new epoch, and nothing is given up', () => {
    const swarm = killedAtSeven();
    for (const name of ['b', 'c', 'a']) {
      expect(swarm.trace()).toEqual([]);
      comeBack(swarm, name);
    }
    expect(swarm.trace()).toEqual([
      'epoch 4 a b c: the server is back, and everyone of the plan',
      'a b c < prepare e4 step 7 kept',
    ]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.generation).toBe(0);
    expect(swarm.run.store.commits.map(({ step }) => step)).toEqual(Array.from({ length: 12 }, (_, step) => step));
  });

  it('it says that it waits for them, and of one who is back that one is', () => {
    const swarm = killedAtSeven();
    const shown = () => snapshot(swarm.run.state, 0);
    const waits = 'Step 8 begins when';
    expect(shown()).toMatchObject({ phase: 'waiting', isReturning: true });
    for (const [name, back] of [
      ['a', 'so is one'],
      ['b', 'so are 2'],
    ] as const) {
      comeBack(swarm, name);
      expect(shown().sentence).toBe(
        `The server is back, and ${back} of its donors. ${waits} the others are back, or soon without them.`,
      );
    }
    comeBack(swarm, 'c');
    expect(shown()).not.toHaveProperty('isReturning');
  });

  it('[RE31] who is not back ten seconds after the last who was is not waited for: the newest checkpoint', () => {
    const swarm = killedAtSeven();
    swarm.pass(60_000);
    swarm.tick();
    comeBack(swarm, 'a');
    swarm.pass(9_999);
    swarm.tick();
    comeBack(swarm, 'b');
    swarm.pass(9_999);
    swarm.tick();
    expect(swarm.trace()).toEqual([]);
    swarm.pass(1);
    swarm.tick();
    expect(swarm.trace().slice(0, 2)).toEqual([ROLLED_BACK, 'epoch 4 a b: not everyone came back']);
  });

  it('[RE31] who says again and again that it is back moves nothing, but its newest word counts', () => {
    const swarm = killedAtSeven();
    comeBack(swarm, 'a', { role: null });
    const said = { type: 'resumed', generation: 0, handedOver: null } as const;
    for (let second = 0; second < 9; second++) {
      swarm.pass(1_000);
      swarm.say('a', { ...said, role: { epoch: swarm.run.store.lastCommit?.epoch ?? 0, step: 7 } });
    }
    expect(swarm.run.state.phase).toMatchObject({ name: 'returning', back: [{ said: { role: { step: 7 } } }] });
    expect(swarm.trace()).toEqual([]);
    swarm.pass(1_000);
    swarm.tick();
    expect(swarm.trace()[0]).toBe(ROLLED_BACK);
  });

  it('[RE31] those who come one after the other keep it waiting for a minute at most', () => {
    const swarm = killedAtSeven();
    swarm.join('d');
    const { phase: begun } = swarm.run.state;
    for (let attempt = 0; attempt < 30; attempt++) {
      swarm.gone('a');
      comeBack(swarm, 'a');
      comeBack(swarm, 'b');
      swarm.pass(4_000);
      swarm.tick();
      swarm.gone('b');
      const { phase } = swarm.run.state;
      if (phase.name !== 'returning') break;
      expect(phase.since).toBe(begun.name === 'returning' && begun.since);
      expect((phase.deadline ?? 0) - (phase.since ?? 0)).toBeLessThanOrEqual(60_000);
    }
    expect(swarm.trace()[0]).toBe(ROLLED_BACK);
  });

  it.each<[string, Claim]>([
    ['a step more than is committed', { role: { epoch: 3, step: 8 } }],
    ['a step less', { role: { epoch: 3, step: 6 } }],
    ['another generation', { generation: 1 }],
    ['another plan', { role: { epoch: 2, step: 7 } }],
    ['nothing but an older copy', { role: null, handedOver: { epoch: 3, step: 6 } }],
    ['nothing', { role: null }],
  ])('[RE32] one with %s has not what is needed, and is no worse for it', (_what, claim) => {
    const swarm = killedAtSeven();
    comeBack(swarm, 'a');
    comeBack(swarm, 'b', claim);
    comeBack(swarm, 'c');
    expect(swarm.trace()).toEqual([]);
    swarm.expire();
    expect(swarm.trace().slice(0, 2)).toEqual([ROLLED_BACK, 'epoch 4 a b c: not everyone came back']);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('one who had no part in the plan cannot come back to it, nor of a generation that never was', () => {
    const swarm = killedAtSeven();
    comeBack(swarm, 'd');
    expect(swarm.trace()).toEqual(['refuse d outOfOrder']);
    for (const name of ['a', 'b', 'c']) comeBack(swarm, name);
    swarm.trace();
    comeBack(swarm, 'e');
    expect(swarm.trace()).not.toContain('refuse e outOfOrder');
    comeBack(swarm, 'f', { generation: 1 });
    expect(swarm.trace()).toContain('refuse f outOfOrder');
  });

  it('[RE30] the same plan under a later epoch is the same: some had heard of it, some had not', () => {
    const swarm = script({ steps: 12, checkpointEverySteps: 5 });
    swarm.join('a', 'b', 'c');
    swarm.settle('* report');
    while (swarm.run.state.committedSteps < 7) swarm.settleOne();
    swarm.say('b', { type: 'fault', epoch: 3, reason: 'internal', detail: 'd' });
    swarm.restart();
    swarm.trace();
    comeBack(swarm, 'a', { role: { epoch: 4, step: 7 } });
    comeBack(swarm, 'b');
    comeBack(swarm, 'c');
    expect(swarm.trace()).toContain('a b c < prepare e5 step 7 kept');
  });

  it('[HO1] in a hand-over those who were to give have the state, whole or as a copy, and it is done again', () => {
    const swarm = script({ steps: 12, checkpointEverySteps: 5 });
    swarm.join('a', 'b');
    swarm.settle('* report');
    while (swarm.run.state.committedSteps < 7) swarm.settleOne();
    swarm.join('c');
    while (swarm.run.state.phase.name !== 'preparing') swarm.settleOne();
    const [before, epoch] = [swarm.run.store.lastCommit?.epoch ?? 0, swarm.run.store.epoch];
    const { committedSteps: step } = swarm.run.state;
    expect([epoch, step]).toEqual([before + 1, 8]);
    swarm.restart();
    swarm.trace();
    // a has copied what it had and has all of its new part, b has heard of nothing.
    comeBack(swarm, 'a', { role: { epoch, step }, handedOver: { epoch: before, step } });
    expect(swarm.trace()).toEqual([]);
    comeBack(swarm, 'b', { role: { epoch: before, step } });
    expect(swarm.trace()).toEqual([
      `epoch ${epoch + 1} a b: the server is back, and everyone who has the state`,
      `a b < prepare e${epoch + 1} step 8 handed over`,
    ]);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.generation]).toEqual(['finished', 0]);
  });

  it('[RE30] one who is gone again is no member who is back', () => {
    const swarm = killedAtSeven();
    comeBack(swarm, 'a');
    comeBack(swarm, 'b');
    swarm.gone('a');
    comeBack(swarm, 'c');
    expect(swarm.trace()).toEqual([]);
    comeBack(swarm, 'a');
    expect(swarm.trace()[1]).toBe('a b c < prepare e4 step 7 kept');
  });

  /** Both at work, and the newest checkpoint has all of it, as the server ends and is back. */
  function endedWhenSaved(config: Parameters<typeof script>[0] = {}): Swarm {
    const swarm = script({ steps: 12, checkpointEverySteps: 5, ...config });
    swarm.join('a', 'b');
    while (swarm.run.store.checkpoint < 5) swarm.settleOne();
    expect(swarm.run.state.committedSteps).toBe(5);
    swarm.restart();
    swarm.trace();
    return swarm;
  }

  it.each<[string, number, string]>([
    ['a stranger', 2_999, 'join'],
    ['a spare that was here before', 9_999, 'joinAgain'],
  ])(
    'where everything is saved %s who comes first takes nobody’s place: those at work are waited for',
    (...[, forMs, how]) => {
      const swarm = endedWhenSaved();
      if (how === 'join') swarm.join('c');
      else swarm.joinAgain('c');
      swarm.pass(forMs);
      swarm.tick();
      expect(swarm.trace()).toEqual([]);
      swarm.join('b', 'a');
      expect(swarm.trace()[0]).toMatch(/^epoch 3 .*: the server is back, and everyone of the plan$/);
    },
  );

  it('for three seconds from the first one’s coming, however many follow, and not where donors are counted', () => {
    const swarm = endedWhenSaved();
    swarm.join('c');
    swarm.pass(1_500);
    swarm.join('d');
    swarm.pass(1_499);
    swarm.tick();
    expect(swarm.trace()).toEqual([]);
    swarm.pass(1);
    swarm.tick();
    expect(swarm.trace()[0]).toBe('epoch 3 c d: not everyone came back');
    const counted = endedWhenSaved({ expectedDonors: 2 });
    counted.join('c', 'd');
    expect(counted.trace()[0]).toMatch(/^epoch 2 c d/);
  });

  it('for ten once one is back who was here before, and not longer for a second one', () => {
    const swarm = endedWhenSaved();
    swarm.join('c');
    swarm.pass(2_000);
    swarm.join('b');
    swarm.pass(4_000);
    swarm.joinAgain('d');
    swarm.say('b', { type: 'resumed', generation: 0, role: null, handedOver: null });
    swarm.pass(3_999);
    swarm.tick();
    expect(swarm.trace()).toEqual([]);
    swarm.pass(1);
    swarm.tick();
    expect(swarm.trace()[0]).toBe('epoch 3 c b d: not everyone came back');
  });

  /** Two compute, and keep each other's replicas; c keeps one of everything. At step 6 of checkpoint 5. */
  function besideKeeper(...late: string[]): Swarm {
    const terms = rehearsalTerms({ steps: 12, checkpointEverySteps: 5, expectedDonors: 3 });
    const makePlan: typeof terms.makePlan = (offer, caps) => {
      const [c] = offer.slice(2);
      const plan = terms.makePlan(offer.slice(0, 2), caps);
      if (!plan.ok || c === undefined) return plan;
      const { state, ...rest } = ringReplicas(plan.value, Math.min(1, offer.length - 1));
      const more = state.map(({ block, shards }) => ({
        block,
        shards: shards.map((shard) => ({ ...shard, replicas: [...shard.replicas, c] })),
      }));
      return success({ ...rest, state: more });
    };
    const swarm = script({}, { ...terms, makePlan });
    swarm.join('a', 'b', 'c');
    while (swarm.run.state.committedSteps < 6) {
      swarm.settle('* report');
      // Three committed steps are owed with the last one.
      const said = ['c', 'a', 'b'].filter((name) => !late.includes(name) || swarm.run.state.committedSteps < 3);
      for (const name of said)
        swarm.settleOne(...['a', 'b', 'c'].flatMap((other) => (other === name ? [] : `${other} report`)));
    }
    swarm.restart();
    swarm.trace();
    return swarm;
  }

  it('[RE30] who does not come back costs nothing where others have what it kept', () => {
    const swarm = besideKeeper();
    comeBack(swarm, 'c', { role: { epoch: 1, step: 6 } });
    swarm.expire();
    expect(swarm.trace()).toContain('c < prepare e2 step 6 handed over');
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.generation]).toEqual(['finished', 0]);
  });

  it('[RE30] a replica that was stale when the server was killed is so afterwards', () => {
    const swarm = besideKeeper('c');
    comeBack(swarm, 'c', { role: { epoch: 1, step: 6 } });
    swarm.expire();
    expect(swarm.trace()[0]).toBe('roll back 6 to 5: the server started again from its store');
  });

  it('a stop leaves everything for the next server; a pause takes effect when all are back', () => {
    const stopped = killedAtSeven();
    comeBack(stopped, 'a');
    stopped.operator('stop');
    expect([stopped.run.ended, stopped.run.store.commits.length]).toEqual(['stopped', 7]);
    const paused = killedAtSeven();
    paused.operator('pause');
    for (const name of ['a', 'b', 'c']) comeBack(paused, name);
    paused.settle();
    expect([paused.run.state.phase.name, paused.run.store.checkpoint]).toEqual(['paused', 8]);
  });

  it('what they earned is counted on, and taken back with a later roll-back', () => {
    const swarm = killedAtSeven();
    const tokens = () => swarm.run.state.donors.map((donor) => Math.round(donor.tokens));
    for (const name of ['a', 'b', 'c']) comeBack(swarm, name);
    const before = tokens();
    expect(before.every((one) => one > 0)).toBe(true);
    swarm.gone('c');
    expect(tokens()).toEqual(before.slice(0, 2).map((one) => Math.round((one * 5) / 7)));
  });

  it('[RE30] the expected donors are whole again, and fewer do where one of them is somebody else', () => {
    const swarm = killedAtSeven({ expectedDonors: 3 });
    for (const name of ['a', 'b', 'c']) comeBack(swarm, name);
    expect(swarm.run.state.gathering).toBe('whole');
    const other = killedAtSeven({ expectedDonors: 3 });
    for (const name of ['d', 'a', 'b', 'c'])
      if (name === 'd') other.join(name);
      else comeBack(other, name);
    expect(other.run.state.gathering).toBe('over');
  });
});
