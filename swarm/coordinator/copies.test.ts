/** [RE84] to [RE86]: what replicas have is held against what their primaries upload, before a checkpoint counts. */
import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import { answer } from '../testing/honestDonor.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { type Script, script } from '../testing/script.ts';
import type { DonorMessage } from './events.ts';

type Uploaded = Extract<DonorMessage, { type: 'uploaded' }>;
const OTHER = 'e'.repeat(64);

/** a and b compute and are the primaries of what they compute with; the others keep copies, block by block in turn. A checkpoint every two steps. */
function training(...others: readonly string[]): Script {
  const terms = rehearsalTerms({ steps: 8, checkpointEverySteps: 2, expectedDonors: 2 + others.length });
  const makePlan: typeof terms.makePlan = (offer, caps) => {
    const made = terms.makePlan(offer.slice(0, 2), caps);
    if (!made.ok) return made;
    const keepers = offer.slice(2);
    const state = made.value.state.map(({ block, shards }, place) => ({
      block,
      shards: shards.map((shard) => ({ ...shard, replicas: keepers.filter((_, i) => place % keepers.length === i) })),
    }));
    return success({ ...made.value, state });
  };
  const swarm = script({}, { ...terms, makePlan });
  swarm.join('a', 'b', ...others);
  return swarm;
}

/** Steps until a checkpoint is asked for; nobody has told what it has of it. */
function untilAsked(swarm: Script): void {
  while (swarm.run.state.pending.length === 0) swarm.settleOne('* uploaded');
}

/** What it uploads for the newest one. */
function uploaded(swarm: Script, name: string, changed: (honest: Uploaded) => Uploaded = (same) => same): void {
  const { plan } = swarm.run.store;
  const pending = swarm.run.state.pending.at(-1);
  if (!plan || !pending || !swarm.run.connected.has(swarm.peer(name))) return;
  const { epoch, step } = pending;
  const said = answer(swarm.run.config, swarm.peer(name), plan, { type: 'save', epoch, step });
  if (said?.type === 'uploaded') swarm.say(name, changed(said));
}

const otherBits =
  (isIt = (_block: string) => true) =>
  ({ copies = [], ...said }: Uploaded): Uploaded => ({
    ...said,
    copies: copies.map((copy) => (isIt(copy.block) ? { ...copy, hash: OTHER } : copy)),
  });

const refusals = (swarm: Script): string[] => swarm.trace().filter((line) => line.startsWith('refuse'));
const resting = (swarm: Script): string[] =>
  swarm.run.state.donors.flatMap(({ peer, asideUntilMs }) => (asideUntilMs === null ? [] : peer));
const facts = (swarm: Script): [checkpoint: number, generation: number] => [
  swarm.run.store.checkpoint,
  swarm.run.store.generation,
];

describe('a checkpoint', () => {
  it('[RE84] counts when a copy of each shard is the same bit for bit, and asks for nothing more', () => {
    const swarm = training('c');
    untilAsked(swarm);
    uploaded(swarm, 'a');
    uploaded(swarm, 'b');
    expect(swarm.run.store.checkpoint).toBe(0);
    uploaded(swarm, 'c');
    expect(swarm.run.store.checkpoint).toBe(2);
    expect(swarm.compared(() => false)).toEqual([]);
  });

  it('[RE84] whichever of primary and copy tells first', () => {
    const swarm = training('c');
    untilAsked(swarm);
    for (const name of ['c', 'b']) uploaded(swarm, name);
    expect(swarm.run.store.checkpoint).toBe(0);
    uploaded(swarm, 'a');
    expect(swarm.run.store.checkpoint).toBe(2);
  });

  it('[RE84] counts where adapters of two classes round otherwise, and blames nobody', () => {
    const swarm = training('c');
    untilAsked(swarm);
    uploaded(swarm, 'a');
    uploaded(swarm, 'b');
    uploaded(swarm, 'c', otherBits());
    expect(swarm.run.store.checkpoint).toBe(0);
    const asked = swarm.compared(() => true);
    expect(asked.map(({ key, keeper, uploadedHash, copy }) => [key, keeper, uploadedHash, copy.hash])).toEqual(
      ['embedding', 'layer.0', 'layer.1', 'layer.2', 'layer.3', 'head'].map((block) => [
        ...[`${block}/0-10`, 'c', '2'.padStart(64, '0'), OTHER],
      ]),
    );
    expect(swarm.run.store.checkpoint).toBe(2);
    expect(swarm.run.state.faults).toEqual([]);
    swarm.settle();
    expect([swarm.run.ended, refusals(swarm)]).toEqual(['finished', []]);
  });

  it('[RE85] does not count where a copy is another one: it is made anew, and the next one counts', () => {
    const swarm = training('c');
    untilAsked(swarm);
    for (const name of ['a', 'b']) uploaded(swarm, name);
    uploaded(
      swarm,
      'c',
      otherBits((block) => block === 'layer.0'),
    );
    swarm.compared(() => false);
    expect(facts(swarm)).toEqual([0, 0]);
    expect(swarm.run.state.pending).toEqual([]);
    swarm.settle('* uploaded');
    expect(swarm.trace().filter((line) => line.includes('handed over'))).toHaveLength(1);
    for (const name of ['a', 'b', 'c']) uploaded(swarm, name);
    expect(swarm.run.store.checkpoint).toBeGreaterThan(2);
    expect([refusals(swarm), swarm.run.store.generation]).toEqual([[], 0]);
  });

  it.each([
    [
      'a primary, of two copies',
      'a',
      ['c', 'd'],
      (said: Uploaded) => otherBits((block) => block === 'layer.0' || block === 'layer.1')(said),
    ],
    ['a copy, of two primaries', 'c', ['c'], otherBits((block) => block === 'layer.0' || block === 'layer.3')],
  ] as const)('[RE85] who differs from two goes, and costs no step: %s', (_, culprit, others, changed) => {
    const swarm = training(...others);
    untilAsked(swarm);
    for (const name of ['a', 'b']) uploaded(swarm, name);
    for (const name of others) uploaded(swarm, name, changed);
    swarm.compared(() => false);
    expect(refusals(swarm)).toEqual([`refuse ${culprit} faulty`]);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.generation, swarm.run.store.commits.length]).toEqual(['finished', 0, 8]);
  });

  it('[RE85] of two who differ again nobody is refused: both rest, and the run goes back, once', () => {
    const swarm = training('c');
    const lie = otherBits((block) => block === 'layer.0');
    const lieAgain = (): void => {
      untilAsked(swarm);
      for (const name of ['a', 'b']) uploaded(swarm, name);
      uploaded(swarm, 'c', lie);
      swarm.compared(() => false);
    };
    lieAgain();
    swarm.settle('* uploaded');
    lieAgain();
    expect([refusals(swarm), swarm.run.store.generation]).toEqual([[], 1]);
    expect(resting(swarm)).toEqual(['a', 'c']);
    swarm.settle();
    expect([swarm.run.ended, refusals(swarm), swarm.run.store.generation]).toEqual(['finished', [], 1]);
  });

  it('[RE85] where two pairs differ twice the newer one of each rests, who was here before goes on, and no step is given up', () => {
    const swarm = training('c', 'd');
    // a has the state of layer.0 with d, b that of layer.3 with c.
    const lies: readonly (readonly [string, string])[] = [
      ['d', 'layer.0'],
      ['c', 'layer.3'],
    ];
    const upload = (): void => {
      untilAsked(swarm);
      for (const { peer } of swarm.run.state.donors) {
        const own = lies.filter(([name]) => swarm.peer(name) === peer).map(([, block]) => block);
        uploaded(
          swarm,
          peer,
          otherBits((block) => own.includes(block)),
        );
      }
      swarm.compared(() => false);
    };
    for (let turn = 0; turn < 3; turn++) {
      upload();
      swarm.settle('* uploaded');
    }
    expect([refusals(swarm), swarm.run.store.generation, resting(swarm)]).toEqual([[], 0, ['c', 'd']]);
  });

  it('[RE85] whoever differs from donors of two other networks goes, whenever it was', () => {
    const swarm = training('c');
    const lie = otherBits((block) => block === 'layer.0');
    untilAsked(swarm);
    for (const name of ['a', 'b']) uploaded(swarm, name);
    uploaded(swarm, 'c', lie);
    swarm.compared(() => false);
    expect(refusals(swarm)).toEqual([]);
    swarm.gone('c');
    swarm.join('d');
    swarm.settle('* uploaded');
    untilAsked(swarm);
    for (const name of ['a', 'b']) uploaded(swarm, name);
    uploaded(swarm, 'd', lie);
    swarm.compared(() => false);
    expect(refusals(swarm)).toEqual(['refuse a faulty']);
  });

  it('[RE85] what one said that was refused counts against nobody any more', () => {
    const swarm = training('c', 'd');
    untilAsked(swarm);
    // By its word and theirs c differs from a and b.
    for (const name of ['a', 'b']) uploaded(swarm, name);
    uploaded(
      swarm,
      'c',
      otherBits((block) => block === 'layer.1' || block === 'layer.3'),
    );
    uploaded(swarm, 'd');
    swarm.compared(() => false);
    expect(refusals(swarm)).toEqual(['refuse c faulty']);
    swarm.join('e');
    swarm.settle('* uploaded');
    untilAsked(swarm);
    for (const name of swarm.run.state.donors.map(({ peer }) => peer)) {
      const lie = otherBits((block) => block === 'layer.0');
      uploaded(swarm, name, name === 'e' ? lie : undefined);
    }
    swarm.compared(() => false);
    expect(refusals(swarm)).toEqual([]);
  });

  it('[RE86] a copy whose keeper is gone, or says nothing in its time, is not waited for', () => {
    const gone = training('c');
    untilAsked(gone);
    for (const name of ['a', 'b']) uploaded(gone, name);
    gone.gone('c');
    expect(facts(gone)).toEqual([2, 0]);
    const silent = training('c');
    untilAsked(silent);
    for (const name of ['a', 'b']) uploaded(silent, name);
    silent.settle('* uploaded');
    expect(silent.run.state.phase.name).toBe('holding');
    silent.expire();
    expect(facts(silent)).toEqual([2, 0]);
    expect(refusals(silent)).toEqual([]);
  });

  it('[RE84] words on what it keeps no copy of end who says them', () => {
    const swarm = training('c');
    untilAsked(swarm);
    uploaded(swarm, 'a', (said) => ({
      ...said,
      copies: said.shards.map((shard) => ({ ...shard, seed: 0, sums: [[], [], []] })),
    }));
    expect(refusals(swarm)).toEqual(['refuse a outOfOrder']);
  });
});
