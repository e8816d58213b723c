/** Of some shards a replica uploads, and its primary tells what it has. */
import { describe, expect, it } from 'vitest';
import { success } from '../base.ts';
import { answer } from '../testing/honestDonor.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { type Script, script } from '../testing/script.ts';
import type { DonorMessage } from './events.ts';
import { nextDeadline } from './state.ts';

type Uploaded = Extract<DonorMessage, { type: 'uploaded' }>;
type Word = NonNullable<Uploaded['copies']>[number];
const OTHER = 'e'.repeat(64);
const UPLOADED = '2'.padStart(64, '0');
const BLOCKS = ['embedding', 'layer.0', 'layer.1', 'layer.2', 'layer.3', 'head'];

/** a and b are the primaries of what they compute with; the others keep copies of all, and the first of them uploads. A checkpoint every two steps. */
function training(...others: readonly string[]): Script {
  const terms = rehearsalTerms({ steps: 8, checkpointEverySteps: 2, expectedDonors: 2 + others.length });
  const makePlan: typeof terms.makePlan = (offer, caps) => {
    const made = terms.makePlan(offer.slice(0, 2), caps);
    if (!made.ok) return made;
    const replicas = offer.slice(2);
    const [uploader] = replicas;
    const state = made.value.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => ({ ...shard, replicas, ...(uploader && { uploader }) })),
    }));
    return success({ ...made.value, state });
  };
  const swarm = script({}, { ...terms, makePlan });
  swarm.join('a', 'b', ...others);
  return swarm;
}

/** Nobody has told yet what it has; all copies are current: b reports last. */
function untilAsked(swarm: Script): void {
  while (swarm.run.state.pending.length === 0) {
    swarm.settle('* uploaded', 'b report');
    swarm.settleOne('* uploaded');
  }
}

/** What it uploads for the newest one, and what it has of what others upload. */
function uploaded(swarm: Script, name: string, changed: (honest: Uploaded) => Uploaded = (same) => same): void {
  const { plan } = swarm.run.store;
  const pending = swarm.run.state.pending.at(-1);
  if (!plan || !pending || !swarm.run.connected.has(swarm.peer(name))) return;
  const { epoch, step, excused } = pending;
  const said = answer(swarm.run.config, swarm.peer(name), plan, { type: 'save', epoch, step, excused });
  if (said?.type === 'uploaded') swarm.say(name, changed(said));
}

const copied = ({ copies = [], ...said }: Uploaded, change: (word: Word) => Word): Uploaded => ({
  ...said,
  copies: copies.map(change),
});
const otherCopies = (said: Uploaded): Uploaded => copied(said, (word) => ({ ...word, hash: OTHER }));
const otherUploads = (said: Uploaded): Uploaded => ({
  ...said,
  shards: said.shards.map((shard) => ({ ...shard, hash: OTHER })),
});

const refusals = (swarm: Script): string[] => swarm.trace().filter((line) => line.startsWith('refuse'));
const checkpointOf = (swarm: Script): number => swarm.run.store.checkpoint;

describe('what a replica uploads', () => {
  it('[RE84] counts when the primary of each shard has the same, whoever tells first', () => {
    for (const order of ['cab', 'abc', 'acb']) {
      const swarm = training('c');
      untilAsked(swarm);
      for (const name of order.slice(0, 2)) uploaded(swarm, name);
      expect(checkpointOf(swarm)).toBe(0);
      for (const name of order.slice(2)) uploaded(swarm, name);
      expect([order, checkpointOf(swarm)]).toEqual([order, 2]);
      swarm.settle();
      expect([swarm.run.ended, refusals(swarm)]).toEqual(['finished', []]);
    }
  });

  it('[RE84] is compared with what the primary has, and what another copy has does not stand for that', () => {
    const swarm = training('c', 'd');
    untilAsked(swarm);
    for (const name of ['c', 'd']) uploaded(swarm, name);
    expect(checkpointOf(swarm)).toBe(0);
    for (const name of ['a', 'b']) uploaded(swarm, name, otherCopies);
    expect(checkpointOf(swarm)).toBe(0);
    const asked = swarm.compared(() => true);
    expect(asked.map(({ key, keeper, uploadedHash, copy }) => [key, keeper, uploadedHash, copy.hash]).sort()).toEqual(
      BLOCKS.map((block, place) => [`${block}/0-10`, place < 3 ? 'a' : 'b', UPLOADED, OTHER]).sort(),
    );
    expect([checkpointOf(swarm), swarm.run.state.faults]).toEqual([2, []]);
  });

  it('[RE84] may be sent by nobody else: what a primary uploads in its place was not asked for', () => {
    const swarm = training('c');
    untilAsked(swarm);
    uploaded(swarm, 'a', ({ copies = [], ...said }) => ({
      ...said,
      shards: copies.map(({ block, range, hash }) => ({ block, range, hash })),
    }));
    expect(refusals(swarm)).toEqual(['refuse a outOfOrder']);
  });

  it('[RE85] does not count where its primary has another state: it is copied anew, the primaries upload the next one, and after a second time both rest', () => {
    const swarm = training('c');
    untilAsked(swarm);
    for (const name of ['a', 'b']) uploaded(swarm, name, (said) => said);
    uploaded(swarm, 'c', (said) => ({
      ...said,
      shards: said.shards.map((shard) => (shard.block === 'layer.0' ? { ...shard, hash: OTHER } : shard)),
    }));
    swarm.compared(() => false);
    expect([checkpointOf(swarm), swarm.run.store.generation, swarm.run.state.pending.length]).toEqual([0, 0, 0]);
    swarm.settle('* uploaded');
    expect(swarm.trace().filter((line) => line.includes('handed over'))).toHaveLength(1);
    for (const name of ['a', 'b']) uploaded(swarm, name);
    uploaded(swarm, 'c', (said) => ({
      ...said,
      shards: said.shards.map((shard) => (shard.block === 'layer.0' ? { ...shard, hash: OTHER } : shard)),
    }));
    swarm.compared(() => false);
    const resting = swarm.run.state.donors.filter(({ asideUntilMs }) => asideUntilMs !== null);
    expect([refusals(swarm), resting.map(({ peer }) => String(peer))]).toEqual([[], ['a', 'c']]);
    expect([checkpointOf(swarm), swarm.run.store.generation]).toEqual([0, 1]);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.commits.length]).toEqual(['finished', 8]);
  });

  it.each([
    ['an uploader, of its primary and another copy', 'c', { c: otherUploads }],
    [
      'a primary, of both copies',
      'a',
      { a: (said: Uploaded) => copied(said, (word) => (word.block === 'layer.0' ? { ...word, hash: OTHER } : word)) },
    ],
  ] as const)('[RE85] who differs from two goes, and costs no step: %s', (_, culprit, lies) => {
    const swarm = training('c', 'd');
    untilAsked(swarm);
    for (const name of ['c', 'd', 'a', 'b'])
      uploaded(swarm, name, (lies as Partial<Record<string, (said: Uploaded) => Uploaded>>)[name]);
    swarm.compared(() => false);
    expect([refusals(swarm), checkpointOf(swarm)]).toEqual([[`refuse ${culprit} faulty`], 0]);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.generation, swarm.run.store.commits.length]).toEqual(['finished', 0, 8]);
  });

  it('[RE85] a copy that differs where primary and uploader agree is made anew, and the checkpoint counts', () => {
    const swarm = training('c', 'd');
    untilAsked(swarm);
    uploaded(swarm, 'c');
    uploaded(swarm, 'd', (said) =>
      copied(said, (word) => (word.block === 'layer.0' ? { ...word, hash: OTHER } : word)),
    );
    swarm.compared(() => false);
    for (const name of ['a', 'b']) uploaded(swarm, name);
    expect([checkpointOf(swarm), refusals(swarm)]).toEqual([2, []]);
    expect(swarm.run.state.faults.map(({ peer, about }) => [peer, about])).toEqual([['a', 'd']]);
  });

  it('[RE84] waits for its primary’s word as for an upload: who does not say it in time is let go, and no other word stands for it', () => {
    const swarm = training('c', 'd');
    untilAsked(swarm);
    for (const name of ['c', 'd', 'b']) uploaded(swarm, name);
    swarm.settle('* uploaded');
    expect([checkpointOf(swarm), swarm.run.state.phase.name]).toEqual([0, 'holding']);
    swarm.expire();
    expect([swarm.run.connected.has(swarm.peer('a')), checkpointOf(swarm)]).toEqual([false, 0]);
    swarm.settle();
    expect([swarm.run.ended, swarm.run.store.generation, swarm.run.store.commits.length]).toEqual(['finished', 0, 8]);
  });

  it('[RE84] a comparison with the primary is not cut short by the deadline', () => {
    const swarm = training('c');
    untilAsked(swarm);
    for (const name of ['c', 'b']) uploaded(swarm, name);
    uploaded(swarm, 'a', otherCopies);
    swarm.settle('* uploaded');
    expect(swarm.run.state.phase.name).toBe('holding');
    swarm.expire();
    expect([swarm.run.state.phase.name, checkpointOf(swarm)]).toEqual(['holding', 0]);
    expect(nextDeadline(swarm.run.state)).toBeGreaterThan(swarm.now());
    swarm.compared(() => true);
    expect(checkpointOf(swarm)).toBe(2);
  });

  it('who uploads is lost: no step is given up, and those who have the state are asked anew', () => {
    const swarm = training('c');
    untilAsked(swarm);
    swarm.settle('c uploaded', '* report');
    swarm.gone('c');
    expect(checkpointOf(swarm)).toBe(0);
    swarm.settle();
    const { ended, store } = swarm.run;
    expect([ended, store.generation, store.commits.length, store.checkpoint]).toEqual(['finished', 0, 8, 8]);
  });

  it('an uploader whose copy is not known to be current is excused: its primaries upload, and it is not asked', () => {
    const swarm = training('c', 'd');
    // Its report of the second step comes after the commit.
    while (swarm.run.store.commits.length === 0) swarm.settleOne('* uploaded');
    while (swarm.run.state.pending.length === 0) {
      swarm.settle('* uploaded', 'b report', 'c report');
      swarm.settleOne('* uploaded', 'c report');
    }
    expect(swarm.run.state.pending.at(-1)?.excused).toEqual(['c']);
    // As they were told.
    swarm.settle('c uploaded', 'd uploaded', '* report');
    expect([Object.keys(swarm.run.state.pending.at(-1)?.hashes ?? {}).length, checkpointOf(swarm)]).toEqual([6, 0]);
    uploaded(swarm, 'd');
    expect(checkpointOf(swarm)).toBe(2);
  });
});
