import { describe, expect, it } from 'vitest';
import { below, overlap, type PeerId, type Random, seededRandom } from '../base.ts';
import type { Model } from '../model/model.ts';
import { type BlockState, holders, type Plan, problems } from '../plan/plan.ts';
import { donors, outlineModel, randomPlanFor } from '../testing/randomPlan.ts';
import { equalSplit } from './equalSplit.ts';
import { type Placing, withoutReplicas, withReplicas } from './replicas.ts';

const elementsOf = (state: readonly BlockState[]): number =>
  state.reduce((sum, { shards }) => shards.reduce((all, { range }) => all + range[1] - range[0], sum), 0);

/** Bytes that a peer keeps, by a count of its own. */
function keptBy({ state }: Plan, peer: PeerId): number {
  let elements = 0;
  for (const { shards } of state)
    for (const { peer: primary, range, replicas } of shards)
      if (primary === peer || replicas.includes(peer)) elements += range[1] - range[0];
  return elements * BYTES;
}
const BYTES = 16;

interface Case extends Placing {
  readonly samples: number;
  readonly limits: ReadonlyMap<PeerId, number>;
}

/** `memory`: each peer has at most so many times what it keeps as a primary, and as much as a copy of all at most. */
function randomCase(random: Random, { memory = true } = {}): Case {
  const model = outlineModel(1 + below(random, 5), random() < 0.5);
  const samples = 1 + below(random, 8);
  const candidates = donors(1 + below(random, 6));
  const members = candidates.slice(0, 1 + below(random, candidates.length));
  const plan = randomPlanFor(random, model, samples, members);
  const whole = BYTES * model.blocks.reduce((sum, { elements }) => sum + elements, 0);
  const limits = new Map(
    candidates.map((peer) => [peer, keptBy(plan, peer) + (random() < 0.2 ? 0 : random() * whole)]),
  );
  const machines = new Map(candidates.map((peer) => [peer, below(random, 3)]));
  return {
    ...{ model, plan, samples, candidates, limits, count: 1 + below(random, 3), before: null },
    roomBytes: (peer, kept) => (memory ? (limits.get(peer) ?? 0) - BYTES * elementsOf(kept) : Number.POSITIVE_INFINITY),
    byteCost: () => 1,
    nearness: (one, other) => (machines.get(one) === machines.get(other) ? 1 : 0),
  };
}

const shardsIn = ({ state }: Plan) =>
  state.flatMap(({ block, shards }) => shards.map((shard) => ({ block, ...shard })));

describe('replicas', () => {
  it('[RE60] of every shard there are as many as wanted where memory allows, of other peers, in a valid plan', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const given = randomCase(seededRandom(seed), { memory: false });
      const plan = withReplicas(given);
      expect(problems(given.model, given, plan), `seed ${seed}`).toEqual([]);
      for (const { replicas } of shardsIn(plan))
        expect(replicas.length, `seed ${seed}`).toBe(Math.min(given.count, given.candidates.length - 1));
      expect(withoutReplicas(plan), `seed ${seed}`).toEqual(withoutReplicas(given.plan));
    }
  });

  it('[RE61] nobody keeps more than its memory holds', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const given = randomCase(seededRandom(seed));
      const plan = withReplicas(given);
      expect(problems(given.model, given, plan), `seed ${seed}`).toEqual([]);
      for (const [peer, limit] of given.limits) expect(keptBy(plan, peer), `seed ${seed}`).toBeLessThanOrEqual(limit);
    }
  });

  it('[RE63] none is nearer to another copy than it has to be', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const given = randomCase(seededRandom(seed), { memory: false });
      for (const { peer, replicas } of shardsIn(withReplicas(given))) {
        const keepers = [peer, ...replicas];
        const isNear = (one: PeerId, others: readonly PeerId[]) =>
          others.some((other) => given.nearness(one, other) > 0);
        for (const [place, replica] of replicas.entries()) {
          const before = keepers.slice(0, place + 1);
          const free = given.candidates.filter((other) => !before.includes(other) && !isNear(other, before));
          if (isNear(replica, before)) expect(free, `seed ${seed}`).toEqual([]);
        }
      }
    }
  });

  it('[RE64] nobody keeps much more than the best of all placements gives to whom it gives most', () => {
    const ratios: number[] = [];
    for (let seed = 1; ratios.length < 40; seed++) {
      const { given } = unitCase(seededRandom(seed));
      const { model, plan, candidates } = given;
      if (candidates.length < 3 || (candidates.length - 1) ** shardsIn(plan).length > MOST_PLACEMENTS) continue;
      const placed = withReplicas({ ...given, roomBytes: () => Number.POSITIVE_INFINITY });
      ratios.push(received(model, placed, candidates) / leastReceived(model, plan, candidates));
    }
    expect(Math.max(...ratios)).toBeLessThanOrEqual(4 / 3);
    expect(ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length).toBeLessThanOrEqual(1.08);
  });

  it('[RE65] placed again it is the same; after a loss who has a shard keeps it where it can', () => {
    const kept = (plan: Plan, peer: PeerId) => shardsIn(plan).filter(({ replicas }) => replicas.includes(peer));
    for (let seed = 1; seed <= 100; seed++) {
      const random = seededRandom(seed);
      const given = randomCase(random, { memory: false });
      const plan = withReplicas(given);
      expect(withReplicas({ ...given, before: plan }), `seed ${seed}`).toEqual(plan);
      // Someone who is primary of nothing goes: the copies of all others stay where they are.
      const gone = given.candidates.find((peer) => shardsIn(plan).every((shard) => shard.peer !== peer));
      if (gone === undefined || given.candidates.length - 1 <= given.count) continue;
      const candidates = given.candidates.filter((peer) => peer !== gone);
      const after = withReplicas({ ...given, candidates, before: plan, nearness: () => 0 });
      for (const peer of candidates) {
        const had = kept(plan, peer).map(({ block, range }) => `${block} ${range}`);
        expect(
          kept(after, peer).map(({ block, range }) => `${block} ${range}`),
          `seed ${seed}`,
        ).toEqual(expect.arrayContaining(had));
      }
    }
  });

  it('[PL18] a block that is gathered is kept by members of its stage alone', () => {
    const model = outlineModel(4, false);
    const candidates = donors(6);
    const split = equalSplit(model, 8, candidates.slice(0, 4), { stages: 2 });
    const stages = split.stages.map((stage, index) => (index === 0 ? { ...stage, gathered: 1 as const } : stage));
    const placed = withReplicas({
      ...{
        model,
        plan: { ...split, stages },
        candidates,
        count: 2,
        before: null,
        byteCost: () => 1,
        nearness: () => 0,
      },
      roomBytes: () => Number.POSITIVE_INFINITY,
    });
    expect(problems(model, { samples: 8 }, placed)).toEqual([]);
    expect(shardsIn(placed).map(({ block, replicas }) => `${block} ${replicas.length}`)).toEqual([
      ...['embedding 1', 'layer.0 1', 'layer.1 1'],
      ...['layer.2 2', 'layer.3 2', 'head 2'],
    ]);
  });

  it('[RE62] one copy of as much as can have one: what a maximum flow carries', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const random = seededRandom(seed);
      const { plan, given, units, rooms } = unitCase(random);
      const copied = shardsIn(withReplicas(given)).reduce(
        (sum, { range: [from, to], replicas }) => sum + ((to - from) / UNIT) * replicas.length,
        0,
      );
      // Every primary's copies may be with anyone but itself, so that the least cut has none, one or all of them on its side.
      const sum = (list: Iterable<number>): number => [...list].reduce((all, one) => all + one, 0);
      const [demand, room] = [sum(units.values()), sum(rooms.values())];
      const cuts = [...units].map(([peer, own]) => demand - own + room - (rooms.get(peer) ?? 0));
      expect(copied, `seed ${seed}: ${JSON.stringify(plan.state)}`).toBe(Math.min(demand, room, ...cuts));
    }
  });
});

/** Elements of slices and values that the busiest peer gets for the state in a step, counted from the rules SC6 to SC8. */
function received(model: Model, plan: Plan, peers: readonly PeerId[]): number {
  const known = holders(model, plan);
  const got = new Map(peers.map((peer) => [peer, 0]));
  for (const { block, peer, range, replicas } of shardsIn(plan))
    for (const taker of peers) {
      let [elements, hasAll] = [0, false];
      const isKeeper = [peer, ...replicas].includes(taker);
      for (const holder of known.get(block) ?? []) {
        const used = holder.ranges.reduce((sum, part) => {
          const [from, to] = overlap(part, range) ?? [0, 0];
          return sum + to - from;
        }, 0);
        if (holder.peer !== taker && isKeeper) elements += used;
        if (holder.peer === taker && taker !== peer) {
          elements += used;
          hasAll ||= used === range[1] - range[0];
        }
      }
      if (replicas.includes(taker) && !hasAll) elements += range[1] - range[0];
      got.set(taker, (got.get(taker) ?? 0) + elements);
    }
  return Math.max(...got.values());
}

const MOST_PLACEMENTS = 5_000;

/** The same of the best of all ways to give each shard one replica. */
function leastReceived(model: Model, plan: Plan, peers: readonly PeerId[]): number {
  const count = shardsIn(plan).length;
  let least = Number.POSITIVE_INFINITY;
  for (let choice = 0; choice < (peers.length - 1) ** count; choice++) {
    let rest = choice;
    const state = plan.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => {
        const others = peers.filter((peer) => peer !== shard.peer);
        const replica = others[rest % others.length];
        rest = Math.floor(rest / others.length);
        return { ...shard, replicas: replica === undefined ? [] : [replica] };
      }),
    }));
    least = Math.min(least, received(model, { ...plan, state }, peers));
  }
  return least;
}

const UNIT = 64;

/** Shards and rooms of whole units of a size at which shards can be cut; some peers compute, all may keep. */
function unitCase(random: Random) {
  const outline = outlineModel(1 + below(random, 4), false);
  const model = {
    ...outline,
    blocks: outline.blocks.map((block) => {
      const elements = UNIT * (1 + below(random, 8));
      return {
        ...block,
        elements,
        tensors: [{ name: block.name, shape: [elements], elements, offset: 0, initial: 'normal' as const }],
      };
    }),
  };
  const candidates = donors(2 + below(random, 4));
  const members = candidates.slice(0, 1 + below(random, Math.min(candidates.length, model.layers)));
  const plan = equalSplit(model, 8, members);
  const rooms = new Map(candidates.map((peer) => [peer, below(random, 12)]));
  const units = new Map<PeerId, number>();
  for (const { peer, range } of shardsIn(plan)) units.set(peer, (units.get(peer) ?? 0) + (range[1] - range[0]) / UNIT);
  const given: Placing = {
    ...{ model, plan, candidates, count: 1, before: null },
    roomBytes: (peer, kept) => BYTES * (UNIT * ((units.get(peer) ?? 0) + (rooms.get(peer) ?? 0)) - elementsOf(kept)),
    byteCost: () => 1,
    nearness: () => 0,
  };
  return { plan, given, units, rooms };
}
