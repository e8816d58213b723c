import { expect, test } from 'vitest';
import { got, type PeerId, peerId, type Range } from '../../../swarm/base.ts';
import { isMeeting } from '../../../swarm/islands/rounds.ts';
import type { MeetingOwners } from '../../../swarm/messages/meetingWords.ts';
import { SHARED_KINDS } from '../../../swarm/plan/stateKinds.ts';
import { initialValue } from '../testing/keeperState.ts';
import {
  type Attempt,
  apart,
  ELEMENTS,
  Groups,
  meetingIslands,
  meetingPlan,
  SPARSE,
  type Tamper,
} from '../testing/meetingGroups.ts';
import type { MeetingWays } from './islandPackets.ts';

const ISLANDS = meetingIslands(SPARSE, 'int8');
/** Steps of a round. */
const ROUND = 6;
const STEPS = 4 * ROUND;
const peersOf = (names: string): PeerId[] => [...names].map(peerId);

/** As `apart`: s alone does island 1; p and q, and r who keeps copies, the others. And o, who keeps nothing. */
const owned = (): Groups =>
  new Groups(
    ISLANDS,
    [
      { ...meetingPlan([['s', [0, ELEMENTS]]], [1]), owned: true },
      {
        ...meetingPlan(
          [
            ['pr', [0, 128]],
            ['qr', [128, ELEMENTS]],
          ],
          [0, 2],
        ),
        owned: true,
      },
    ],
    STEPS,
    [peerId('o')],
  );

type Owners = readonly [range: Range, have: string, keep: string];
const owners = (ranges: readonly Owners[], more: Omit<MeetingOwners, 'ranges'> = {}): MeetingOwners => ({
  ranges: ranges.map(([range, have, keep]) => ({ block: 'head', range, have: peersOf(have), keep: peersOf(keep) })),
  ...more,
});

/** As islands begin: nothing has been met about. */
const CHECKPOINT = 7;
const read: MeetingWays['read'] = async (checkpoint, name, kind, [from, to]) => {
  expect([checkpoint, name]).toEqual([CHECKPOINT, 'head']);
  return Float32Array.from({ length: to - from }, (_, i) => (kind === 'velocity' ? 0 : initialValue(from + i)));
};
const checkpoint = CHECKPOINT;

/** Ranges that no shard has, across both tensors; o owns of what it does not keep, p of what q keeps. */
const FIRST: Attempt = {
  owners: owners(
    [
      [[0, 64], '', 'so'],
      [[64, 192], '', 'or'],
      [[192, 264], '', 'p'],
      [[264, 300], '', 'sq'],
    ],
    { checkpoint },
  ),
  read,
};
/** Some stay, one gets another copy, one goes to somebody else, one has all new owners; the second group saves. */
const SECOND: Attempt = {
  owners: owners(
    [
      [[0, 64], 'so', 'so'],
      [[64, 192], 'or', 'os'],
      [[192, 264], 'p', 'qo'],
      [[264, 300], 'sq', 'rp'],
    ],
    { savedBy: [1] },
  ),
};
/** o is gone: of what it had the copies alone have it, or nobody has. Ranges are cut otherwise. */
const THIRD: Attempt = {
  owners: owners(
    [
      [[0, 64], 's', 'sr'],
      [[64, 128], 's', 's'],
      [[128, 192], 's', 'q'],
      [[192, 264], 'q', 'pq'],
      [[264, 300], 'rp', 'r'],
    ],
    { savedBy: [0, 1] },
  ),
};
/** Both groups saved; now the first one does. */
const FOURTH: Attempt = {
  owners: owners(
    [
      [[0, 128], 's', 's'],
      [[128, 264], 'q', 'p'],
      [[264, 300], 'r', 'r'],
    ],
    { savedBy: [0] },
  ),
};
const ROUNDS = [FIRST, SECOND, THIRD, FOURTH];

/** By kind, what the owners say they have, where they do. */
function expectOwners(groups: Groups, { ranges }: MeetingOwners, wanted: ReadonlyMap<string, readonly number[]>): void {
  for (const [peer, { owned: store }] of groups.keepers) {
    let bytes = 0;
    for (const { block, range, keep } of ranges) {
      if (!keep.includes(peer)) continue;
      const found = store.copyOf({ block, range });
      for (const kind of SHARED_KINDS)
        expect([...found[kind]], `${kind} of ${range} at ${peer}`).toEqual(got(wanted, kind).slice(...range));
      bytes += 3 * 4 * (range[1] - range[0]);
    }
    expect(store.bytes, peer).toBe(bytes);
  }
}

async function expectKeepers(groups: Groups, wanted: ReadonlyMap<string, readonly number[]>): Promise<void> {
  for (const [peer, keeper] of groups.keepers)
    for (const [kind, values] of await keeper.state(ISLANDS))
      for (const [i, value] of values.entries())
        if (value !== undefined) expect(value, `${kind} ${i} at ${peer}`).toBe(got(wanted, kind)[i]);
}

test('[IS112] [IS113] [IS114] with owners groups come to the bits of one group that does all by turns', async () => {
  const [one, groups] = [new Groups(ISLANDS, [meetingPlan([['z', [0, ELEMENTS]]])], STEPS), owned()];
  const rounds = [...ROUNDS];
  for (let step = 0; step < STEPS; step++) {
    await one.did(step);
    await groups.did(step);
    if (!isMeeting(one.train, step + 1)) continue;
    const attempt = rounds.shift() ?? {};
    if (attempt === THIRD) groups.keepers.delete(peerId('o'));
    await groups.meet(step, attempt);
    const wanted = await got(one.keepers, peerId('z')).state(ISLANDS);
    await expectKeepers(groups, wanted);
    if (attempt.owners) expectOwners(groups, attempt.owners, wanted);
    await expectSaved(groups, attempt, wanted);
  }
  expect(rounds).toEqual([]);
});

/** Keepers of the groups that save have all that is saved, and others have not, until the next meeting is over. */
async function expectSaved(groups: Groups, { owners: of }: Attempt, wanted: ReadonlyMap<string, readonly number[]>) {
  const savers = (of?.savedBy ?? []).map((place) => ['s', 'pqr'][place]).join('');
  for (const [peer, { shards, role }] of groups.keepers)
    for (const { block, range } of role.kept) {
      const saved = shards.readState(block, range, ['shared', 'velocity']);
      if (!savers.includes(peer)) await expect(saved).rejects.toThrow('nothing for shared');
      else
        expect([...(await saved)], peer).toEqual(
          ['shared', 'velocity'].flatMap((kind) => got(wanted, kind).slice(...range)),
        );
    }
}

/** After the first meeting, and the steps of the second round. */
async function afterFirst(): Promise<Groups> {
  const groups = owned();
  for (let step = 0; step < 2 * ROUND; step++) {
    await groups.did(step);
    if (step === ROUND - 1) await groups.meet(step, FIRST);
  }
  return groups;
}

async function allOf(groups: Groups): Promise<unknown> {
  const all = [...groups.keepers].map(async ([peer, keeper]) => {
    const ranges = FIRST.owners?.ranges.filter(({ keep }) => keep.includes(peer)) ?? [];
    return [peer, await keeper.state(ISLANDS), ranges.map((range) => keeper.owned.copyOf(range))] as const;
  });
  return Promise.all(all);
}

test('[IS113] an attempt with owners changes nothing, and the next one comes to the same', async () => {
  const [once, twice] = [await afterFirst(), await afterFirst()];
  const before = await allOf(twice);
  const held = await twice.hold(2 * ROUND - 1, SECOND);
  expect(held.map(({ status }) => status)).toEqual(held.map(() => 'fulfilled'));
  expect(await allOf(twice)).toEqual(before);
  for (const groups of [once, twice]) await groups.meet(2 * ROUND - 1, SECOND);
  for (const [peer, keeper] of twice.keepers) {
    const other = got(once.keepers, peer);
    expect(await keeper.state(ISLANDS), peer).toEqual(await other.state(ISLANDS));
    for (const range of SECOND.owners?.ranges ?? [])
      if (range.keep.includes(peer)) expect(keeper.owned.copyOf(range)).toEqual(other.owned.copyOf(range));
  }
});

test('[IS113] where no island did a step what is shared moves, and nothing else changes', async () => {
  const groups = await afterFirst();
  const wanted = new Map<string, number[]>();
  for (const { block, range, keep } of FIRST.owners?.ranges ?? [])
    for (const kind of SHARED_KINDS) {
      const has = got(groups.keepers, keep[0] ?? peerId('?')).owned.copyOf({ block, range });
      wanted.set(kind, [...(wanted.get(kind) ?? []), ...has[kind]]);
    }
  const before = new Map(
    await Promise.all([...groups.keepers].map(async ([peer, keeper]) => [peer, await keeper.state(ISLANDS)] as const)),
  );
  const sent: string[] = [];
  const tamper: Tamper = (_from, _to, { kind }, words) => {
    sent.push(kind);
    return words;
  };
  await groups.meet(2 * ROUND - 1, { ...SECOND, steps: [0, 0, 0], tamper });
  expect([...new Set(sent)]).toEqual(['shared']);
  if (SECOND.owners) expectOwners(groups, SECOND.owners, wanted);
  for (const [peer, keeper] of groups.keepers) {
    const { published, ...now } = Object.fromEntries(await keeper.state(ISLANDS));
    const had = got(before, peer);
    expect(published).toEqual(had.get('published'));
    for (const [kind, values] of Object.entries(now))
      if (!kind.startsWith('value')) expect(values, `${kind} at ${peer}`).toEqual(had.get(kind));
  }
});

test.each([0, 1, 3, 6])(
  '[IS81] [IS113] with owners what came of a meeting is taken in %i steps later',
  async (late) => {
    const [going, wanted] = [owned(), apart(ISLANDS, STEPS)];
    for (let step = 0; step < ROUND; step++) for (const groups of [going, wanted]) await groups.did(step);
    const ends = [await going.ends(), await wanted.ends()] as const;
    const take = async (): Promise<void> => {
      await going.takeIn(ROUND - 1, ends[0], FIRST);
      await wanted.takeIn(ROUND - 1, ends[1]);
    };
    for (let step = ROUND; step < 2 * ROUND; step++) {
      if (step === ROUND + late) await take();
      for (const groups of [going, wanted]) await groups.did(step);
    }
    if (late === ROUND) await take();
    for (const [peer, keeper] of wanted.keepers) {
      const other = await got(going.keepers, peer).state(ISLANDS);
      const { shared: _shared, velocity: _velocity, ...rest } = Object.fromEntries(await keeper.state(ISLANDS));
      expect(Object.fromEntries(other), peer).toEqual(rest);
    }
    if (FIRST.owners) expectOwners(going, FIRST.owners, await got(wanted.keepers, peerId('s')).state(ISLANDS));
  },
);

test('[IS114] what an owner has published is compared with what all who keep it have, whether it keeps it or not', async () => {
  const groups = owned();
  for (let step = 0; step < ROUND; step++) await groups.did(step);
  const held = await groups.hold(ROUND - 1, FIRST);
  const words = held.map((one) => (one.status === 'fulfilled' ? one.value : expect.unreachable(String(one.reason))));
  // Cut where shards are and where ranges are.
  const cuts = ['0-64', '64-128', '128-192', '192-264', '264-300'];
  const has = { s: cuts, p: [...cuts.slice(0, 2), cuts[3]], q: cuts.slice(2), r: cuts, o: cuts.slice(0, 3) };
  const digests = new Map<string, string>();
  for (const { peer, said } of words) {
    const own = said.digests.map(({ range, digest }) => [range.join('-'), digest] as const);
    expect(own.map(([range]) => range).toSorted(), peer).toEqual(has[peer as keyof typeof has].toSorted());
    for (const [range, digest] of own) expect(digest, `${range} at ${peer}`).toBe(digests.get(range) ?? digest);
    for (const [range, digest] of own) digests.set(range, digest);
  }
});

test('[IS111] ranges may be cut otherwise than they were, but who has not all of one says so', async () => {
  const { owned: store } = got((await afterFirst()).keepers, peerId('s'));
  const whole = store.copyOf({ block: 'head', range: [264, 300] });
  expect([...store.copyOf({ block: 'head', range: [270, 280] }).shared]).toEqual([...whole.shared.slice(6, 16)]);
  for (const range of [[64, 70] as const, [0, 300] as const])
    expect(() => store.copyOf({ block: 'head', range })).toThrow(
      `what islands share of head [${range.join(', ')}) is not here`,
    );
});

test.each([
  ['published', Number.NaN, 's', 'o sent what it publishes of head [64, 192): a scale is no number, or past 2^50'],
  ['published', 2 ** 51, 's', 'o sent what it publishes of head [64, 192): a scale is no number, or past 2^50'],
  ['shared', Number.NaN, 's', 'o sent the shared values of head [64, 192): one is no number, or past 2^50'],
  ['shared', 2 ** 51, 's', 'o sent the shared values of head [64, 192): one is no number, or past 2^50'],
] as const)(
  '[IS115] what is %s with %d in it is refused by who takes it, who names its sender',
  async (lied, lie, at, why) => {
    const groups = await afterFirst();
    const tamper: Tamper = (from, to, { kind }, words) => {
      if (from !== 'o' || to !== at || kind !== lied) return words;
      const changed = words.slice();
      changed[0] = lie;
      return changed;
    };
    const held = await groups.hold(2 * ROUND - 1, { ...SECOND, tamper });
    const reasons = held.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    expect(reasons.map(String)).toEqual([`Error: ${why}`]);
    expect(reasons[0]).toMatchObject({ from: 'o' });
  },
);
