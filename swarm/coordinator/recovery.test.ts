/** A member is lost, and replicas have what it kept. */
import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import { keepersOf } from '../plan/plan.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { ringReplicas } from '../testing/ringReplicas.ts';
import { type Script, script } from '../testing/script.ts';
import { living } from './successor.ts';

function replicated(count: number, part: Parameters<typeof rehearsalTerms>[0] = {}): Script {
  const terms = rehearsalTerms({ steps: 6, expectedDonors: 3, ...part });
  const makePlan: typeof terms.makePlan = (offer, caps) => {
    const plan = terms.makePlan(offer, caps);
    return plan.ok ? success(ringReplicas(plan.value, count)) : plan;
  };
  return script({}, { ...terms, makePlan });
}

/** From whom the members of the epoch in progress get each shard, and who else has it. */
function keepersNow({ run: { state } }: Script): string[][] {
  const { phase } = state;
  const plan = phase.name === 'preparing' && phase.source.from === 'peers' ? living(state, phase.source.inForce) : null;
  return (plan?.state ?? []).map(({ shards }) => shards.map((shard) => keepersOf(shard).join()));
}

/** Trains until step 1 is in progress: one step stands committed beyond checkpoint 0. */
function atStepOne(count = 1, part = {}): Script {
  const swarm = replicated(count, part);
  swarm.join('a', 'b', 'c');
  swarm.settle('* report');
  for (const name of ['a', 'b', 'c'])
    swarm.settleOne(...['a', 'b', 'c'].flatMap((other) => (other === name ? [] : `${other} report`)));
  expect(swarm.run.state).toMatchObject({ committedSteps: 1, phase: { name: 'training', step: 1 } });
  swarm.trace();
  return swarm;
}

describe('a member is gone', () => {
  it('[RE20] gives up the step in progress and nothing else where a replica has each of its shards', () => {
    const swarm = atStepOne();
    swarm.gone('b');
    expect(swarm.trace()).toEqual([
      'a c < abandon e1',
      'epoch 2 a c: b is gone',
      'a c < prepare e2 step 1 handed over',
    ]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.commits).toHaveLength(6);
  });

  it('[RE20] goes back to the checkpoint where a shard is left with nobody, and says so', () => {
    const swarm = atStepOne();
    swarm.gone('b');
    swarm.gone('c'); // b's replica, in the middle of the hand-over
    const trace = swarm.trace();
    expect(trace).toContain('roll back 1 to 0: c is gone, and nobody else has all that it kept');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('[RE20] two losses, one in the hand-over after the other, cost nothing with two replicas', () => {
    const swarm = atStepOne(2);
    swarm.gone('b');
    swarm.settleOne();
    swarm.gone('c');
    expect(swarm.trace().filter((line) => line.startsWith('roll back'))).toEqual([]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it.each(['a', 'b', 'c'])('[RE20] whoever it is, and wherever it happens (%s)', (name) => {
    // Every point between two answers of the first two steps.
    for (let answers = 0; answers < 12; answers++) {
      const swarm = replicated(1);
      swarm.join('a', 'b', 'c');
      for (let i = 0; i < answers && swarm.run.ended === null; i++) swarm.settleOne();
      const committed = swarm.run.state.committedSteps;
      swarm.gone(name);
      expect(swarm.run.state.committedSteps, `${name} after ${answers} answers`).toBe(committed);
      swarm.settle();
      expect(swarm.run.ended).toBe('finished');
    }
  });

  it('[RE21] what each shard comes from is its first keeper who is there', () => {
    const swarm = atStepOne();
    const before = swarm.run.store.plan;
    swarm.gone('b');
    expect(keepersNow(swarm)).toEqual(
      before?.state.map(({ shards }) => shards.map(({ peer }) => ({ a: 'a', b: 'c', c: 'c,a' })[String(peer)])),
    );
  });

  it('[RE22] waits with the state where it is until somebody comes, where those who are left cannot go on', () => {
    const terms = rehearsalTerms({ steps: 4, expectedDonors: 3 });
    const makePlan: typeof terms.makePlan = (offer, caps) => {
      const plan = terms.makePlan(offer, caps);
      if (offer.length < 3) return { ok: false, reason: 'three are needed' };
      return plan.ok ? success(ringReplicas(plan.value, 1)) : plan;
    };
    const swarm = script({}, { ...terms, makePlan });
    swarm.join('a', 'b', 'c');
    swarm.settle('b report');
    swarm.settleOne();
    swarm.settle('b report');
    const committed = swarm.run.state.committedSteps;
    expect(committed).toBe(1);
    swarm.gone('b');
    swarm.settle();
    expect(swarm.run.state).toMatchObject({ committedSteps: 1, phase: { name: 'planning' } });
    swarm.join('d');
    expect(swarm.run.state.committedSteps).toBe(1);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  /** Two compute and keep each other's replicas; the third, c, only keeps one of everything. */
  function besideKeeper(isAlone = false): Script {
    const terms = rehearsalTerms({ steps: 6, expectedDonors: 3 });
    const makePlan: typeof terms.makePlan = (offer, caps) => {
      const [c] = offer.length > 2 ? offer.slice(2) : [];
      const plan = terms.makePlan(offer.slice(0, 2), caps);
      if (!plan.ok || c === undefined) return plan;
      const { state, ...rest } = ringReplicas(plan.value, 1);
      const more = state.map(({ block, shards }) => ({
        block,
        shards: shards.map((shard) => ({ ...shard, replicas: isAlone ? [c] : [...shard.replicas, c] })),
      }));
      return success({ ...rest, state: more });
    };
    const swarm = script({}, { ...terms, makePlan });
    swarm.join('a', 'b', 'c');
    swarm.settle('* report');
    return swarm;
  }

  it('[RE23] a commit waits for one replica of each shard, and the other one has the state no more', () => {
    const swarm = besideKeeper();
    const { plan } = swarm.run.store;
    swarm.settleOne('b report', 'c report');
    swarm.settleOne('a report', 'c report');
    expect(swarm.run.state.committedSteps).toBe(1);
    swarm.gone('a');
    // c has a copy too, but nobody knows of which step.
    expect(new Set(keepersNow(swarm).flat())).toEqual(new Set(['b']));
    expect(plan?.state.some(({ shards }) => shards.some(({ peer }) => peer === 'a'))).toBe(true);
    swarm.gone('b');
    expect(swarm.run.state.committedSteps).toBe(0);
  });

  it('[RE23] one that keeps all of the state and has said so is enough', () => {
    const swarm = besideKeeper();
    for (const name of ['c', 'a', 'b'])
      swarm.settleOne(...['a', 'b', 'c'].filter((other) => other !== name).map((other) => `${other} report`));
    expect(swarm.run.state.committedSteps).toBe(1);
    swarm.gone('a');
    swarm.gone('b');
    expect(swarm.run.state.committedSteps).toBe(1);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
  });

  it('an operator who pauses loses nothing by it', () => {
    const swarm = atStepOne();
    swarm.operator('pause');
    swarm.gone('b');
    expect(swarm.trace().filter((line) => line.startsWith('roll back'))).toEqual([]);
    swarm.settle();
    expect(swarm.run.state).toMatchObject({ committedSteps: 2, newestCheckpointStep: 2, phase: { name: 'paused' } });
  });

  it.each(['a', 'b', 'c'])('[RE26] the last state is asked of who has it now where it went with %s', (name) => {
    const swarm = replicated(1, { steps: 2 });
    swarm.join('a', 'b', 'c');
    swarm.settle(`${name} uploaded`);
    expect(swarm.run.state).toMatchObject({ committedSteps: 2, phase: { name: 'saving' } });
    swarm.trace();
    swarm.gone(name);
    swarm.settle();
    expect(swarm.trace().filter((line) => line.startsWith('roll back') || line.includes('start'))).toEqual([]);
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.checkpoint).toBe(2);
  });

  it('[RE27] who only keeps copies holds a commit up for some seconds at most, then goes; its time counts for no deadline', () => {
    const swarm = besideKeeper(true);
    swarm.pass(1_000);
    swarm.settle('c report');
    expect(swarm.run.state).toMatchObject({ committedSteps: 0, phase: { reportedMs: 1_000 } });
    swarm.trace();
    swarm.expire();
    const trace = swarm.trace();
    expect(trace).toContain('commit 0');
    expect(trace).toContain('refuse c tooLate');
    expect(trace.filter((line) => line.startsWith('roll back'))).toEqual([]);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    const other = besideKeeper(true);
    other.pass(1_000);
    other.settle('c report');
    other.pass(4_000);
    other.settleOne();
    expect(other.run.state).toMatchObject({ committedSteps: 1, phase: { inForce: { slowestMs: 1_000 } } });
  });
});
