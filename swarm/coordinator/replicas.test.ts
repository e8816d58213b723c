/** [RE14] to [RE19]: what replicas report, and what comes of it where keepers of a shard did not get the same. */
import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { answer } from '../testing/honestDonor.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { type Script, script } from '../testing/script.ts';
import type { PlanInForce } from './state.ts';

/** a and b compute and are the primaries of what they compute with; the others compute nothing and have all of it. */
function training(others: readonly string[]): Script {
  const terms = rehearsalTerms({ steps: 8, expectedDonors: 2 + others.length });
  const makePlan: typeof terms.makePlan = (offer, caps) => {
    const made = terms.makePlan(offer.slice(0, 2), caps);
    if (!made.ok) return made;
    const state = made.value.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => ({ ...shard, replicas: offer.slice(2) })),
    }));
    return success({ ...made.value, state });
  };
  const swarm = script({}, { ...terms, makePlan });
  swarm.join('a', 'b', ...others);
  swarm.settle('* report');
  swarm.trace();
  return swarm;
}

function inForceOf({ run: { state } }: Script): PlanInForce {
  if (!('inForce' in state.phase)) throw new Error(`no plan is in force: ${state.phase.name}`);
  return state.phase.inForce;
}

/** What this donor reports of the step in progress, changed. */
function report(swarm: Script, name: string, changed: (honest: ReportMessage) => ReportMessage = (same) => same) {
  const { plan, epoch } = inForceOf(swarm);
  const step = swarm.run.state.committedSteps;
  const said = answer(swarm.peer(name), plan, { type: 'start', epoch, step });
  if (said?.type !== 'report') throw new Error(`${name} has nothing to report`);
  swarm.say(name, changed(said));
}

const otherSlices = ({ shards, ...said }: ReportMessage, isOther = (_block: string) => true): ReportMessage => ({
  ...said,
  shards: shards.map((shard) => (isOther(shard.block) ? { ...shard, digest: 'e'.repeat(64) } : shard)),
});

/** The step in progress, in which these got other slices than the others. */
function stepUnequal(
  swarm: Script,
  names: readonly string[],
  differing: readonly string[],
  isOther?: (block: string) => boolean,
): void {
  for (const name of names) {
    if (!swarm.run.connected.has(swarm.peer(name))) continue;
    if (swarm.run.state.phase.name !== 'training') return;
    report(swarm, name, differing.includes(name) ? (said) => otherSlices(said, isOther) : undefined);
  }
}

const hasRolledBack = (swarm: Script): boolean => swarm.trace().some((line) => line.startsWith('roll back'));

describe('a replica that reports later than the commit', () => {
  it('[RE15] counts again when it has said the same, and as long as it owes that not at all', () => {
    const swarm = training(['c', 'd']);
    for (const name of ['a', 'b', 'c']) report(swarm, name);
    expect(swarm.run.state.committedSteps).toBe(1);
    expect(new Set(inForceOf(swarm).behind.map(({ keeper }) => keeper.split(' ')[0]))).toEqual(new Set(['d']));
    const [said] = [answer(swarm.peer('d'), inForceOf(swarm).plan, { type: 'start', epoch: 1, step: 0 })];
    if (said) swarm.say('d', said as ReportMessage);
    expect(inForceOf(swarm)).toMatchObject({ behind: [], stale: [] });
    swarm.gone('a');
    swarm.gone('c');
    expect(hasRolledBack(swarm)).toBe(false);
  });

  it('[RE15] is none when it says otherwise, or never says it', () => {
    const late = training(['c', 'd']);
    for (const name of ['a', 'b', 'c']) report(late, name);
    late.gone('a');
    late.gone('c');
    expect(hasRolledBack(late)).toBe(true);
    const other = training(['c', 'd']);
    for (const name of ['a', 'b', 'c']) report(other, name);
    const said = answer(other.peer('d'), inForceOf(other).plan, { type: 'start', epoch: 1, step: 0 });
    if (said?.type === 'report') other.say('d', otherSlices(said));
    expect(new Set(inForceOf(other).stale.map((keeper) => keeper.split(' ')[0]))).toEqual(new Set(['d']));
  });

  it('[RE15] is none when it owes three of them', () => {
    const swarm = training(['c', 'd']);
    for (let step = 0; step < 3; step++) {
      expect(inForceOf(swarm).stale).toEqual([]);
      for (const name of ['a', 'b', 'c']) report(swarm, name);
      swarm.settle('* report');
    }
    expect(inForceOf(swarm).behind).toEqual([]);
    expect(inForceOf(swarm).stale.length).toBeGreaterThan(0);
  });

  it('[RE15] does not stand for the primary in the step after', () => {
    const swarm = training(['c', 'd']);
    for (const name of ['a', 'b', 'c']) report(swarm, name);
    swarm.settle('* report');
    // d is behind: what it says of step 1 alone is not enough.
    for (const name of ['a', 'b', 'd']) report(swarm, name);
    expect(swarm.run.state.committedSteps).toBe(1);
    report(swarm, 'c');
    expect(swarm.run.state.committedSteps).toBe(2);
  });
});

describe('keepers of a shard that did not get the same', () => {
  it('[RE16] do the step again, and nobody is blamed', () => {
    const swarm = training(['c']);
    stepUnequal(swarm, ['a', 'b', 'c'], ['c']);
    expect(swarm.trace()).toContain('a b c < prepare e2 step 0 kept');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.commits).toHaveLength(8);
  });

  it('[RE16] [RE17] the second time through the server, the third time without the replica', () => {
    const swarm = training(['c']);
    const isOther = (block: string) => block === 'layer.0';
    for (const epoch of [2, 3, 4]) {
      stepUnequal(swarm, ['a', 'b', 'c'], ['c'], isOther);
      expect(inForceOf(swarm).epoch).toBe(epoch);
      // a alone computes with it.
      expect(swarm.run.state.relayed).toEqual(epoch === 2 ? [] : [['a', 'c']]);
      expect(swarm.run.connected.size).toBe(3);
      swarm.settle('* report');
    }
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([]);
    // What it has of the steps before is as good as ever.
    expect(inForceOf(swarm)).toMatchObject({ unheeded: ['c layer.0/0-10'], stale: [] });
    stepUnequal(swarm, ['a', 'b', 'c'], ['c'], isOther);
    expect(swarm.run.state.committedSteps).toBe(1);
    expect(inForceOf(swarm).stale).toEqual(['c layer.0/0-10']);
  });

  it('[RE18] a holder that the server sees send them different slices is refused, and costs no step', () => {
    const swarm = training(['c']);
    for (const name of ['a', 'b', 'c']) report(swarm, name);
    swarm.settle('* report');
    for (let time = 0; time < 2; time++) {
      stepUnequal(swarm, ['a', 'b', 'c'], ['c']);
      swarm.settle('* report');
    }
    swarm.sawUnequal('b');
    const trace = swarm.trace();
    expect(trace).toContain('refuse b faulty');
    expect(trace.filter((line) => line.startsWith('roll back'))).toEqual([]);
    expect(swarm.run.state.committedSteps).toBe(1);
  });

  it.each([
    ['a primary, from two replicas', 'a', ['c', 'd']],
    ['a replica, from two primaries', 'c', ['c']],
  ])('[RE17] who differs from several is refused: %s', (_, culprit, others) => {
    const swarm = training(others);
    for (let time = 0; time < 3; time++) {
      stepUnequal(swarm, ['a', 'b', ...others], [culprit]);
      swarm.settle('* report');
    }
    expect(swarm.trace()).toContain(`refuse ${culprit} faulty`);
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.commits).toHaveLength(8);
  });
});

describe('[RE14] a report', () => {
  it.each<[string, string, (said: ReportMessage) => ReportMessage]>([
    [
      'of a replica without a digest',
      'c',
      (said) => ({ ...said, shards: said.shards.map((shard) => ({ ...shard, digest: null })) }),
    ],
    [
      'of a primary without a digest',
      'a',
      (said) => ({ ...said, shards: said.shards.map((shard) => ({ ...shard, digest: null })) }),
    ],
    [
      'of a primary without squares',
      'a',
      (said) => ({ ...said, shards: said.shards.map((shard) => ({ ...shard, sumSquares: null })) }),
    ],
    [
      'of a replica with squares',
      'c',
      (said) => ({ ...said, shards: said.shards.map((shard) => ({ ...shard, sumSquares: 1 })) }),
    ],
  ])('%s is a fault', (_, name, changed) => {
    const swarm = training(['c']);
    report(swarm, name, changed);
    expect(swarm.run.state.faults).toEqual([{ of: 'itself', peer: name, about: null, step: 0 }]);
  });
});
