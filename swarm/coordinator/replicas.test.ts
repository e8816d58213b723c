/** [RE14] to [RE23]: what replicas report, and what comes of it where keepers of a shard did not get the same. */
import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import { keepersOf } from '../plan/plan.ts';
import { answer, honestDigest } from '../testing/honestDonor.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { type Script, script } from '../testing/script.ts';
import { comparedShards, sliceName } from '../ways/compared.ts';
import { snapshot } from './snapshot.ts';
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
  const said = answer(swarm.run.config, swarm.peer(name), plan, { type: 'start', epoch, step });
  if (said?.type !== 'report') throw new Error(`${name} has nothing to report`);
  swarm.say(name, changed(said));
}

const OTHER = 'e'.repeat(22);

const otherSlices = ({ shards, ...said }: ReportMessage, isOther = (_block: string) => true): ReportMessage => ({
  ...said,
  shards: shards.map((shard) =>
    isOther(shard.block) ? { ...shard, digests: shard.digests?.map(() => OTHER) ?? null } : shard,
  ),
});

interface Odd {
  /** Say that they got other slices of these blocks, or (of their own) sent them. */
  readonly liars?: readonly string[];
  readonly isOther?: (block: string) => boolean;
  /** Sends this one other slices than the others, and says what it sent those. */
  readonly equivocator?: readonly [from: string, to: string];
}

/** The step in progress; the server sees what it carries. */
function stepUnequal(swarm: Script, names: readonly string[], { liars = [], isOther, equivocator }: Odd) {
  const { state } = swarm.run;
  if (state.phase.name !== 'training') return;
  const { plan, epoch } = inForceOf(swarm);
  const { committedSteps: step } = state;
  const [from, to] = equivocator ?? [];
  for (const { block, shard, slices } of comparedShards(acceptedModel(swarm.run.config), plan))
    for (const { holder, tensor } of slices)
      for (const keeper of keepersOf(shard)) {
        const slice = sliceName(tensor);
        const isWatched = state.relayed.some((pair) => pair.includes(holder) && pair.includes(keeper));
        const isOdd = holder === from && keeper === to && (isOther?.(block) ?? true);
        const digest = isOdd ? OTHER : honestDigest(step, slice);
        if (keeper !== holder && isWatched && inForceOf(swarm).epoch === epoch)
          swarm.sawSlice(holder, keeper, { step, slice, digest });
      }
  for (const name of names) {
    const { phase, epoch: now } = swarm.run.state;
    if (!swarm.run.connected.has(swarm.peer(name)) || phase.name !== 'training' || now !== epoch) continue;
    if (liars.includes(name)) report(swarm, name, (said) => otherSlices(said, isOther));
    else if (name === to) report(swarm, name, (said) => gotOther(swarm, said, from ?? '', isOther));
    else report(swarm, name);
  }
}

/** Honestly: other slices of this holder. */
function gotOther(swarm: Script, said: ReportMessage, from: string, isOther = (_block: string) => true): ReportMessage {
  const compared = comparedShards(acceptedModel(swarm.run.config), inForceOf(swarm).plan);
  const shards = said.shards.map((one) => {
    const found = compared.find(({ block, shard }) => block === one.block && shard.range[0] === one.range[0]);
    const digests = one.digests?.map((digest, i) => (found?.slices[i]?.holder === from ? OTHER : digest)) ?? null;
    return isOther(one.block) ? { ...one, digests } : one;
  });
  return { ...said, shards };
}

const lackingOf = (swarm: Script) => inForceOf(swarm).lacking;
const isIt = (block: string) => (name: string) => name === block;

const hasRolledBack = (swarm: Script): boolean => swarm.trace().some((line) => line.startsWith('roll back'));

describe('a replica that reports later than the commit', () => {
  it('[RE15] counts again when it has said the same, and as long as it owes that not at all', () => {
    const swarm = training(['c', 'd']);
    for (const name of ['a', 'b', 'c']) report(swarm, name);
    expect(swarm.run.state.committedSteps).toBe(1);
    expect(new Set(lackingOf(swarm).map(({ keeper }) => keeper.split(' ')[0]))).toEqual(new Set(['d']));
    const { plan } = inForceOf(swarm);
    const said = answer(swarm.run.config, swarm.peer('d'), plan, { type: 'start', epoch: 1, step: 0 });
    if (said) swarm.say('d', said as ReportMessage);
    expect(lackingOf(swarm)).toEqual([]);
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
    const { plan } = inForceOf(other);
    const said = answer(other.run.config, other.peer('d'), plan, { type: 'start', epoch: 1, step: 0 });
    if (said?.type === 'report') other.say('d', otherSlices(said, isIt('layer.0')));
    expect(lackingOf(other).filter(({ owes }) => owes.length === 0)).toEqual([{ keeper: 'd layer.0/0-10', owes: [] }]);
    // Between whom it was is remembered as of any report.
    expect(new Set(other.run.state.faults.map(({ of, peer, about }) => `${of} ${peer} ${about}`))).toEqual(
      new Set(['slices a d']),
    );
  });

  it('[RE15] [RE23] is none when it owes three of them, and gets the shards anew; the second time others keep them', () => {
    const swarm = training(['c', 'd']);
    for (const time of [1, 2]) {
      for (let step = 0; step < 3; step++) {
        expect(lackingOf(swarm).some(({ owes }) => owes.length === 0)).toBe(false);
        for (const name of ['a', 'b', 'c']) report(swarm, name);
        if (step < 2) swarm.settle('* report');
      }
      if (time === 2) break;
      expect(swarm.trace().filter((line) => line.includes('handed over'))).toHaveLength(1);
      swarm.settle('* report');
      expect(lackingOf(swarm)).toEqual([]);
    }
    expect(swarm.trace()).toContain('refuse d tooLate');
    expect(hasRolledBack(swarm)).toBe(false);
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
  const others = ['c'];
  const names = ['a', 'b', ...others];

  /** As often as it takes until somebody goes, or a step is committed. */
  function untilItEnds(swarm: Script, odd: Odd): string[] {
    for (let time = 0; time < 4; time++) {
      stepUnequal(swarm, names, odd);
      swarm.settle('* report');
    }
    return swarm.trace();
  }

  it('[RE16] do the step again, and nobody is blamed', () => {
    const swarm = training(others);
    stepUnequal(swarm, names, { liars: ['c'] });
    expect(swarm.trace()).toContain('a b c < prepare e2 step 0 kept');
    swarm.settle();
    expect(swarm.run.ended).toBe('finished');
    expect(swarm.run.store.commits).toHaveLength(8);
  });

  it('[RE16] the second time the two between whom it was send through the server, and no others', () => {
    const swarm = training(others);
    for (const [epoch, relayed] of [
      [2, []],
      [3, [['a', 'c']]],
    ] as const) {
      // biome-ignore format: one line
      stepUnequal(swarm, names, { liars: ['c'], isOther: isIt('layer.0') });
      expect(inForceOf(swarm).epoch).toBe(epoch);
      expect(swarm.run.state.relayed).toEqual(relayed);
      expect(swarm.run.connected.size).toBe(3);
      swarm.settle('* report');
    }
    expect(lackingOf(swarm)).toEqual([]);
  });

  it.each<[string, string, Odd]>([
    ['a replica', 'c', { liars: ['c'], isOther: isIt('layer.0') }],
    ['a primary, of what it sent itself', 'a', { liars: ['a'], isOther: isIt('layer.0') }],
    ['a primary, of what others sent it too', 'a', { liars: ['a'] }],
    ['a replica, of all', 'c', { liars: ['c'] }],
    ['who sends two keepers different slices', 'b', { equivocator: ['b', 'c'] }],
    ['who sends its own shard’s replica another slice', 'a', { equivocator: ['a', 'c'], isOther: isIt('layer.1') }],
    ['who sends the primary another slice', 'b', { equivocator: ['b', 'a'] }],
  ])(
    '[RE17] [RE18] who says, or sends, something else than went by is refused, and costs no step: %s',
    (_, culprit, odd) => {
      const swarm = training(others);
      for (const name of names) report(swarm, name);
      swarm.settle('* report');
      const trace = untilItEnds(swarm, odd);
      expect(trace.filter((line) => line.startsWith('refuse'))).toEqual([`refuse ${culprit} faulty (proven)`]);
      expect(trace.filter((line) => line.startsWith('roll back'))).toEqual([]);
      expect(swarm.run.state.committedSteps).toBeGreaterThanOrEqual(1);
    },
  );

  it('[RE16] it counts as the second time within 20 committed steps, whatever stands committed between', () => {
    const swarm = training(others);
    stepUnequal(swarm, names, { liars: ['c'], isOther: isIt('layer.0') });
    swarm.settle('* report');
    for (const name of names) report(swarm, name);
    swarm.settle('* report');
    stepUnequal(swarm, names, { liars: ['c'], isOther: isIt('layer.1') });
    expect(swarm.run.state.committedSteps).toBe(1);
    expect(swarm.run.state.relayed).toEqual([['a', 'c']]);
  });

  it('[RE17] who has a slice of one whom the server carries, but which did not go by, is refused', () => {
    const swarm = training(others);
    for (let time = 0; time < 2; time++) {
      stepUnequal(swarm, names, { liars: ['c'], isOther: isIt('layer.0') });
      swarm.settle('* report');
    }
    report(swarm, 'a');
    report(swarm, 'b');
    report(swarm, 'c', (said) => otherSlices(said, isIt('layer.0')));
    expect(swarm.trace()).toContain('refuse c faulty (proven)');
  });

  it('[RE23] with another replica that agrees the step stands, and the one that differs gets the shard anew', () => {
    const swarm = training(['c', 'd']);
    stepUnequal(swarm, ['d', 'a', 'b', 'c'], { liars: ['d'], isOther: isIt('layer.0') });
    expect(swarm.run.state.committedSteps).toBe(1);
    expect(lackingOf(swarm)).toEqual([]);
    const { phase } = swarm.run.state;
    expect(phase.name === 'preparing' && phase.source.from === 'peers' && phase.source.inForce.lacking).toEqual([
      { keeper: 'd layer.0/0-10', owes: [] },
    ]);
    expect(swarm.run.state.faults.filter(({ of }) => of === 'slices')).toHaveLength(1);
    swarm.gone('a');
    expect(hasRolledBack(swarm)).toBe(false);
    swarm.settle();
    expect(swarm.run.store.commits).toHaveLength(8);
  });
});

describe('[RE46] keepers of the same slices that came to other sums of their squares', () => {
  const names = ['a', 'b', 'c'];
  const saying = (sumSquares: ReportMessage['shards'][number]['sumSquares'], key = 'layer.0') => (word: ReportMessage): ReportMessage => ({ ...word, shards: word.shards.map((shard) => (shard.block === key ? { ...shard, sumSquares } : shard)) }); // biome-ignore format: one line

  /** The step in progress: each slice that the server carries has these squares. */
  function stepWith(swarm: Script, liar: string, change: (word: ReportMessage) => ReportMessage, squares = 0.25) {
    const { plan } = inForceOf(swarm);
    const { committedSteps: step, relayed } = swarm.run.state;
    for (const { shard, slices } of comparedShards(acceptedModel(swarm.run.config), plan))
      for (const { holder, tensor } of slices)
        for (const keeper of keepersOf(shard)) {
          const slice = sliceName(tensor);
          const isCarried = relayed.some((pair) => pair.includes(holder) && pair.includes(keeper));
          if (keeper !== holder && isCarried)
            swarm.sawSlice(holder, keeper, { step, slice, digest: honestDigest(step, slice), squares });
        }
    for (const name of names) report(swarm, name, name === liar ? change : undefined);
  }

  it.each([
    ['a replica', 'c', 1e30],
    ['a primary', 'a', 1e30],
    ['a replica, of a norm three times too small', 'c', 0.25 / 9],
    ['a primary, of no gradient', 'a', 0],
    ['a replica, of what is no number', 'c', 'NaN'],
  ] as const)('do it again through the server, and who cannot have its own goes: %s', (_, liar, said) => {
    const swarm = training(['c']);
    stepWith(swarm, liar, saying(said));
    expect(swarm.run.state.committedSteps).toBe(0);
    expect(swarm.run.state.relayed).toEqual([['a', 'c']]);
    swarm.settle('* report');
    stepWith(swarm, liar, saying(said));
    swarm.settle();
    expect(swarm.trace().filter((line) => line.startsWith('refuse'))).toEqual([`refuse ${liar} faulty (proven)`]);
    expect(swarm.run.store.commits.map(({ gradientNorm }) => gradientNorm)).toEqual(
      Array(8).fill(expect.closeTo(Math.sqrt(6 * 0.25), 12)),
    );
  });

  it('go on with the primary’s where both can be, without doing anything twice again', () => {
    const swarm = training(['c']);
    // Of the tied embedding a and b send a half each: their sum can be anything up to 1.
    const change = saying(0.9, 'embedding');
    stepWith(swarm, 'c', change);
    swarm.settle('* report');
    const { epoch } = swarm.run.state;
    for (let step = 0; step < 8; step++) {
      stepWith(swarm, 'c', change);
      expect(swarm.run.state.committedSteps).toBe(step + 1);
      if (step < 7) swarm.settle('* report');
    }
    expect([swarm.run.state.epoch, swarm.run.state.donors.length]).toEqual([epoch, 3]);
  });

  it('rounding is none', () => {
    const swarm = training(['c']);
    stepWith(swarm, 'c', saying(0.25 * (1 + 9e-4)));
    expect(swarm.run.state.committedSteps).toBe(1);
  });
});

it('while no copy of a block is left it is said, once, and no longer', () => {
  const swarm = training(['c']);
  const logged: string[] = [];
  const shown = () => snapshot(swarm.run.state, 0);
  for (const name of ['a', 'b', 'c']) report(swarm, name);
  swarm.settle('* report');
  expect(shown().uncopied).toBeUndefined();
  logged.push(...swarm.logs());
  swarm.gone('c');
  logged.push(...swarm.logs());
  const sentence = 'Only one copy is left of embedding and 5 other blocks.';
  expect(shown()).toMatchObject({ uncopied: ['embedding', 'layer.0', 'layer.1', 'layer.2', 'layer.3', 'head'] });
  expect(shown().sentence.endsWith(sentence)).toBe(true);
  expect(logged.filter((text) => text === sentence)).toHaveLength(1);
});

describe('[RE14] a report', () => {
  it.each<[string, string, (said: ReportMessage) => ReportMessage]>([
    [
      'of a replica without a digest',
      'c',
      (said) => ({ ...said, shards: said.shards.map((shard) => ({ ...shard, digests: null })) }),
    ],
    [
      'of a primary without a digest',
      'a',
      (said) => ({ ...said, shards: said.shards.map((shard) => ({ ...shard, digests: null })) }),
    ],
    // b computes with the tied embedding, and does not keep it.
    ['of a holder without what it sent', 'b', ({ sent: _, ...said }) => said],
    ['of who sends nothing with what it sent', 'c', (said) => ({ ...said, sent: [OTHER] })],
  ])('%s is a fault', (_, name, changed) => {
    const swarm = training(['c']);
    report(swarm, name, changed);
    expect(swarm.run.state.faults).toMatchObject([{ of: 'itself', peer: name, about: null, step: 0 }]);
  });
});
