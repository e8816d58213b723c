import { describe, expect, it } from 'vitest';
import {
  addToKey,
  arrayOf,
  below,
  invariant,
  overlap,
  type PeerId,
  peerId,
  type Random,
  seededRandom,
  total,
  totalOf,
} from '../base.ts';
import { plannedBytes, predictedBytes } from '../memory/memory.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Model } from '../model/model.ts';
import {
  type BlockState,
  holders,
  keepersOf,
  type Plan,
  peers as peersOf,
  problems,
  type Shard,
} from '../plan/plan.ts';
import { uploadsOf } from '../plan/uploader.ts';
import { donors, outlineModel, randomPlanFor } from '../testing/randomPlan.ts';
import { SMALL_BATCH, SMALL_MODEL, smallCluster } from '../testing/smallClusters.ts';
import { type Cluster, parseCluster } from './cluster.ts';
import type { ReplicaWish } from './clusterCosts.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import { type ClusterPlan, planCluster } from './clusterPlan.ts';
import { equalSplit } from './equalSplit.ts';
import { fittingSplit } from './fit.ts';
import { forecast } from './forecast.ts';
import {
  lackOf,
  type Placing,
  replicated,
  replicatedWithin,
  replicaWish,
  savingSeconds,
  uploadReasons,
  withoutReplicas,
  withReplicas,
  withUploaders,
} from './replicas.ts';

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
  const whole = BYTES * totalOf(model.blocks, ({ elements }) => elements);
  const limits = new Map(
    candidates.map((peer) => [peer, keptBy(plan, peer) + (random() < 0.2 ? 0 : random() * whole)]),
  );
  const machines = new Map(candidates.map((peer) => [peer, below(random, 3)]));
  return {
    ...{ model, plan, samples, candidates, limits, count: 1 + below(random, 3), before: null },
    roomBytes: (peer, kept) => (memory ? (limits.get(peer) ?? 0) - BYTES * elementsOf(kept) : Infinity),
    byteCost: () => 1,
    nearness: (one, other) => (machines.get(one) === machines.get(other) ? 1 : 0),
  };
}

const shardsIn = ({ state }: Plan) =>
  state.flatMap(({ block, shards }) => shards.map((shard) => ({ block, ...shard })));

describe('replicas', () => {
  it('of every shard there are as many as wanted where memory allows, of other peers, in a valid plan', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const given = randomCase(seededRandom(seed), { memory: false });
      const plan = withReplicas(given);
      expect(problems(given.model, given, plan), `seed ${seed}`).toEqual([]);
      for (const { replicas } of shardsIn(plan))
        expect(replicas.length, `seed ${seed}`).toBe(Math.min(given.count, given.candidates.length - 1));
      expect(withoutReplicas(plan), `seed ${seed}`).toEqual(withoutReplicas(given.plan));
    }
  });

  it('nobody keeps more than its memory holds', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const given = randomCase(seededRandom(seed));
      const plan = withReplicas(given);
      expect(problems(given.model, given, plan), `seed ${seed}`).toEqual([]);
      for (const [peer, limit] of given.limits) expect(keptBy(plan, peer), `seed ${seed}`).toBeLessThanOrEqual(limit);
    }
  });

  it('none is nearer to another copy than it has to be', () => {
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

  it('nobody keeps much more than the best of all placements gives to whom it gives most', () => {
    const ratios: number[] = [];
    for (let seed = 1; ratios.length < 40; seed++) {
      const { given } = unitCase(seededRandom(seed));
      const { model, plan, candidates } = given;
      if (candidates.length < 3 || (candidates.length - 1) ** shardsIn(plan).length > MOST_PLACEMENTS) continue;
      const placed = withReplicas({ ...given, roomBytes: () => Infinity });
      ratios.push(received(model, placed, candidates) / leastReceived(model, plan, candidates));
    }
    expect(Math.max(...ratios)).toBeLessThanOrEqual(4 / 3);
    expect(total(ratios) / ratios.length).toBeLessThanOrEqual(1.08);
  });

  it('placed again it is the same; after a loss who has a shard keeps it where it can', () => {
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
      roomBytes: () => Infinity,
    });
    expect(problems(model, { samples: 8 }, placed)).toEqual([]);
    expect(shardsIn(placed).map(({ block, replicas }) => `${block} ${replicas.length}`)).toEqual([
      ...['embedding 1', 'layer.0 1', 'layer.1 1'],
      ...['layer.2 2', 'layer.3 2', 'head 2'],
    ]);
  });

  it('one copy of as much as can have one: what a maximum flow carries', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const random = seededRandom(seed);
      const { plan, given, units, rooms } = unitCase(random);
      const copied = totalOf(
        shardsIn(withReplicas(given)),
        ({ range: [from, to], replicas }) => ((to - from) / UNIT) * replicas.length,
      );
      // Every primary's copies may be with anyone but itself, so that the least cut has none, one or all of them on its side.
      const sum = (list: Iterable<number>): number => total(list);
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
      addToKey(got, taker, elements);
    }
  return Math.max(...got.values());
}

const MOST_PLACEMENTS = 5_000;

/** The same of the best of all ways to give each shard one replica. */
function leastReceived(model: Model, plan: Plan, peers: readonly PeerId[]): number {
  const count = shardsIn(plan).length;
  let least = Infinity;
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
  for (const { peer, range } of shardsIn(plan)) addToKey(units, peer, (range[1] - range[0]) / UNIT);
  const given: Placing = {
    ...{ model, plan, candidates, count: 1, before: null },
    roomBytes: (peer, kept) => BYTES * (UNIT * ((units.get(peer) ?? 0) + (rooms.get(peer) ?? 0)) - elementsOf(kept)),
    byteCost: () => 1,
    nearness: () => 0,
  };
  return { plan, given, units, rooms };
}

describe('how many replicas a plan gets', () => {
  const [model, batch] = [SMALL_MODEL, SMALL_BATCH];
  const wishing = (count: number, isAsked = true): ReplicaWish => ({ count, isAsked, sites: {}, before: null });
  const countsIn = ({ state }: Plan): number[] =>
    state.flatMap(({ shards }) => shards.map(({ replicas }) => replicas.length));

  function planned(cluster: Cluster, replicas?: ReplicaWish): ClusterPlan {
    const problem: ClusterProblem = { model, batch, cluster, ...(replicas && { replicas }) };
    const found = planCluster(problem, ({ work }) => work < 600);
    invariant(found.ok, found.ok ? '' : found.reason);
    return found.value;
  }

  /** Two equal peers, over a link of this rate. */
  function pair(bytesPerSecond: number): Cluster {
    const peers = ['a', 'b'].map((id) => ({ id, memoryBytes: 1e9, flopsPerSecond: 1e8 }));
    const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0.001, bytesPerSecond } } }, 'two');
    invariant(cluster.ok, 'a cluster');
    return cluster.value;
  }

  describe('replicas of a plan for a cluster', () => {
    it('the plan without them is the one without a wish; their memory is what is allocated, and fits', () => {
      for (let seed = 1; seed <= 6; seed++) {
        const cluster = smallCluster(seededRandom(seed), 2 + (seed % 4));
        const [plain, copied] = [planned(cluster), planned(cluster, wishing(1))];
        // Copies are sent over links of their own.
        const [bare, other] = [withoutReplicas(copied.plan), plain.plan].map(({ links: _, ...plan }) => plan);
        expect(bare, `seed ${seed}`).toEqual(other);
        expect(problems(model, batch, copied.plan), `seed ${seed}`).toEqual([]);
        expect(countsIn(copied.plan), `seed ${seed}`).toContain(1);
        for (const { peer, memoryBytes, memoryLimitBytes } of copied.predicted.peers) {
          expect(memoryBytes, `seed ${seed}`).toBe(predictedBytes(model, copied.plan, peer, batch.sequence));
          expect(memoryBytes, `seed ${seed}`).toBeLessThanOrEqual(memoryLimitBytes);
        }
        expect(copied.predicted.stepSeconds).toBe(
          forecast(clusterCosts({ model, batch, cluster }), copied.plan).stepSeconds,
        );
      }
    });

    it('a search that begins with the plan in force finds it again with its copies', () => {
      const cluster = smallCluster(seededRandom(3), 4);
      const { plan } = planned(cluster, wishing(2));
      const problem = { model, batch, cluster, inForce: plan, replicas: { ...wishing(2), before: plan } };
      const again = planCluster(problem, () => false);
      expect(again.ok && again.value.plan).toEqual(plan);
    });

    it('where nobody asked there are none on links that make a step more than a tenth longer, and there are on fast ones', () => {
      const plan = equalSplit(model, batch.samples, [peerId('a'), peerId('b')]);
      for (const [rate, isFast] of [
        [1e9, true],
        [1e6, false],
      ] as const) {
        const costs = clusterCosts({ model, batch, cluster: pair(rate) });
        const [asked, unasked] = [replicated(costs, plan, wishing(1)), replicated(costs, plan, wishing(1, false))];
        const longer = asked.forecast.stepSeconds / forecast(costs, plan).stepSeconds - 1;
        expect(longer > 0.1).toBe(!isFast);
        expect(new Set(countsIn(asked.plan))).toEqual(new Set([1]));
        expect(new Set(countsIn(unasked.plan))).toEqual(new Set([isFast ? 1 : 0]));
        const warnings = unasked.reasons.filter(({ isWarning }) => isWarning).map(({ text }) => text);
        if (isFast) expect(warnings).toEqual([]);
        else
          expect(warnings).toEqual([
            expect.stringMatching(
              /^Nothing of the training state \(weights and optimizer\) has a copy with another donor, because a step would take \d+ % longer\. When every donor/,
            ),
          ]);
      }
    });

    it('a spare whose memory and links are good keeps state alone, and is said to', () => {
      const peers = ['a', 'b', 'spare'].map((id) => ({
        ...{ id, memoryBytes: 1e9, flopsPerSecond: id === 'spare' ? 1e4 : 1e8 },
      }));
      const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0.001, bytesPerSecond: 1e8 } } }, 'it');
      invariant(cluster.ok, 'a cluster');
      const { plan, idle, reasons, predicted } = planned(cluster.value, wishing(2));
      expect(plan.stages.flatMap(({ members }) => members.map(({ peer }) => peer))).not.toContain('spare');
      expect(new Set(countsIn(plan))).toEqual(new Set([2]));
      expect(idle).toEqual([]);
      expect(reasons.find(({ peer }) => peer === 'spare')?.text).toMatch(
        /keeps copies of [\d,]+ elements of the state/,
      );
      expect(predicted.peers.find(({ peer }) => peer === 'spare')?.memoryBytes).toBeGreaterThan(0);
    });
  });

  describe('replicas of a plan that no measurement decides', () => {
    const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];
    const run = { model, batch, caps: new Map<PeerId, number>(), offer: [A, B, C] };

    it('as many as the donors give memory for, and a sentence where there are fewer', () => {
      const plan = equalSplit(model, batch.samples, [A, B, C]);
      expect(replicatedWithin(run, plan, wishing(1)).reasons).toEqual([]);
      for (const share of [0, 0.1, 0.4, 0.9]) {
        const whole = replicatedWithin(run, plan, wishing(1)).plan;
        const caps = new Map(
          [A, B, C].map((peer) => {
            const [least, most] = [plan, whole].map((one) => plannedBytes(model, one, peer, batch));
            return [peer, Math.round((least ?? 0) + share * ((most ?? 0) - (least ?? 0)))];
          }),
        );
        const { plan: copied, reasons } = replicatedWithin({ ...run, caps }, plan, wishing(1));
        for (const [peer, cap] of caps) expect(plannedBytes(model, copied, peer, batch)).toBeLessThanOrEqual(cap);
        expect(problems(model, batch, copied)).toEqual([]);
        expect(reasons).toEqual([
          { peer: null, isWarning: true, text: expect.stringMatching(/has no room for more\. When/) },
        ]);
        if (share === 0) expect(countsIn(copied)).not.toContain(1);
        else expect(countsIn(copied)).toContain(1);
      }
    });

    it('with one donor there is none, with two there is one of each', () => {
      const alone = fittingSplit({ model, batch, caps: run.caps, peers: [A], options: {} });
      invariant(alone.ok, 'a plan');
      expect(replicatedWithin({ ...run, offer: [A] }, alone.value, wishing(1)).reasons).toEqual([
        {
          ...{ peer: null, isWarning: true },
          text: 'One donor keeps the only copy of the state. When it is gone, the run goes back to its newest checkpoint.',
        },
      ]);
      const two = replicatedWithin({ ...run, offer: [A, B] }, equalSplit(model, batch.samples, [A, B]), wishing(2));
      expect(new Set(countsIn(two.plan))).toEqual(new Set([1]));
      expect(two.reasons.map(({ text }) => text)).toEqual([
        'Nothing of the training state (weights and optimizer) has 2 copies with other donors, because there are 2 donors. When every donor that keeps a part is gone, the run goes back to its newest checkpoint.',
      ]);
    });

    it('another network comes before another browser, and that before the same one', () => {
      const plan = equalSplit(model, batch.samples, [A]);
      const D = peerId('d');
      const site = (network: string, browser: string) => ({ network, browser });
      const sites = { a: site('home', 'x'), b: site('home', 'x'), c: site('home', 'y'), d: site('away', 'z') };
      const order = (offer: readonly PeerId[]): PeerId[] =>
        peersOf(replicatedWithin({ ...run, offer }, plan, { ...wishing(1), sites }).plan);
      expect(order([A, B, C, D])).toEqual([A, D]);
      expect(order([A, B, C])).toEqual([A, C]);
      expect(order([A, B])).toEqual([A, B]);
    });

    it('what a plan lacks of its copies is told in shares of its state; one next door counts half', () => {
      const plan = equalSplit(model, batch.samples, [A, B]);
      const { plan: copied } = replicatedWithin({ ...run, offer: [A, B] }, plan, wishing(1));
      const near = { network: 'home', browser: null };
      expect(lackOf(plan, wishing(1))).toBe(1);
      expect(lackOf(copied, wishing(1))).toBe(0);
      expect(lackOf(copied, { ...wishing(1), sites: { a: near, b: near } })).toBe(0.5);
    });
  });
});

describe('who uploads for checkpoints', () => {
  const model = acceptedModel({
    model: {
      ...{ model_type: 'gpt2', n_layer: 4, n_head: 1, n_embd: 8, n_positions: 8, vocab_size: 16 },
      tie_word_embeddings: false,
    },
  });
  const batch = { samples: 4, sequence: 8 };
  /** Value and both moments, each a float. */
  const ELEMENT_BYTES = 12;

  interface Home {
    /** Elements of state a second; absent: no limit. */
    readonly rate?: number;
    readonly line?: string;
  }

  function linesOf(homes: Readonly<Record<string, Home>>): ClusterCosts {
    const peers = Object.entries(homes).map(([id, { rate, line }]) => ({
      ...{ id, memoryBytes: 1e9, flopsPerSecond: 1e9 },
      ...(rate !== undefined && { uploadBytesPerSecond: rate * ELEMENT_BYTES }),
      ...(line !== undefined && { line }),
    }));
    const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0.01 } } }, 'c.json');
    invariant(cluster.ok, cluster.ok ? '' : cluster.reason);
    return clusterCosts({ model, batch, cluster: cluster.value });
  }

  /** Shards of so many elements, one after the other: `a 10 b,c` is at a, copied at b and c. */
  function planOf(...shards: readonly string[]): Plan {
    let reached = 0;
    const list = shards.map((text): Shard => {
      const [peer = '', elements = '', replicas = ''] = text.split(' ');
      const from = reached;
      reached += Number(elements);
      return { peer: peerId(peer), range: [from, reached], replicas: replicas.split(',').filter(Boolean).map(peerId) };
    });
    return { stages: [], microBatches: [], state: [{ block: 'head', shards: list }], schedule: 'gpipe' };
  }

  const uploadersIn = ({ state }: Plan): (string | undefined)[] =>
    state.flatMap(({ shards }) => shards.map(({ uploader }) => uploader));

  /** Who uploads each shard, and how long a checkpoint takes before and after. */
  function chosen(homes: Readonly<Record<string, Home>>, ...shards: readonly string[]) {
    const [lines, plan] = [linesOf(homes), planOf(...shards)];
    const after = withUploaders(lines, plan);
    return [
      uploadersIn(after)
        .map((one) => one ?? '-')
        .join(' '),
      savingSeconds(lines, plan),
      savingSeconds(lines, after),
    ];
  }

  describe('who uploads a shard', () => {
    it('is a replica whose line is twice as good, and a checkpoint takes what its bytes take there', () => {
      expect(chosen({ a: { rate: 10 }, b: { rate: 40 } }, 'a 120 b')).toEqual(['b', 12, 3]);
      expect(chosen({ a: { rate: 10 }, b: { rate: 20 } }, 'a 120 b')).toEqual(['b', 12, 6]);
      expect(chosen({ a: { rate: 10 }, b: { rate: 40 }, c: { rate: 60 } }, 'a 120 b,c')).toEqual(['c', 12, 2]);
    });

    it('is the primary where no replica’s line is clearly better, or has no limit', () => {
      expect(chosen({ a: { rate: 10 }, b: { rate: 19 } }, 'a 120 b')).toEqual(['-', 12, 12]);
      expect(chosen({ a: { rate: 10 }, b: { rate: 5 } }, 'a 120 b')).toEqual(['-', 12, 12]);
      expect(chosen({ a: {}, b: {} }, 'a 120 b')).toEqual(['-', 0, 0]);
      expect(chosen({ a: { rate: 10 }, b: { rate: 40 } }, 'a 120')).toEqual(['-', 12, 12]);
    });

    it('is the primary where its part takes less than a second', () => {
      expect(chosen({ a: { rate: 10 }, b: { rate: 40 } }, 'a 9 b')).toEqual(['-', 0.9, 0.9]);
      expect(chosen({ a: { rate: 10 }, b: { rate: 40 } }, 'a 10 b')).toEqual(['b', 1, 0.25]);
    });

    it('counts what the replica has to upload itself: the largest go first, as long as it is done sooner', () => {
      // Of its own 40 elements b has 1 s; with a's of 60 2.5 s, with that of 40, too, 3.5 s, where a's last would take 2 s.
      expect(chosen({ a: { rate: 10 }, b: { rate: 40 } }, 'b 40 a', 'a 20 b', 'a 60 b', 'a 40 b')).toEqual([
        ...['- - b b', 12, 3.5],
      ]);
      // b is done with its own no sooner than a would be with all.
      expect(chosen({ a: { rate: 10 }, b: { rate: 40 } }, 'b 480 a', 'a 120 b')).toEqual(['- -', 12, 12]);
    });

    it('is no one behind the same router, whose line is the same', () => {
      const home = { line: 'home', rate: 10 };
      expect(chosen({ a: home, b: { line: 'home', rate: 10 } }, 'a 120 b')[0]).toBe('-');
      const [lines, plan] = [linesOf({ a: home, b: { line: 'home', rate: 10 }, c: { rate: 80 } }), planOf('a 120 b,c')];
      expect(uploadersIn(withUploaders(lines, plan))).toEqual(['c']);
    });

    it('follows from plan and lines alone: once more it is the same, and another plan’s choice is no part of it', () => {
      for (let seed = 1; seed <= 50; seed++) {
        const random = seededRandom(seed);
        const names = ['a', 'b', 'c', 'd'];
        const homes = Object.fromEntries(names.map((name) => [name, { rate: 1 + Math.floor(random() * 100) }]));
        const shards = arrayOf(8, () => {
          const [primary, ...others] = names.toSorted(() => random() - 0.5);
          return `${primary} ${1 + Math.floor(random() * 400)} ${others.filter(() => random() < 0.5).join(',')}`;
        });
        const [lines, plan] = [linesOf(homes), planOf(...shards)];
        const after = withUploaders(lines, plan);
        expect(withUploaders(lines, after), `seed ${seed}`).toEqual(after);
        // Every shard once, by one of its keepers; by the closed form no later than before.
        const all = names.flatMap((name) => uploadsOf(after, peerId(name), undefined));
        expect(all.length, `seed ${seed}`).toBe(shards.length);
        for (const shard of after.state.flatMap((block) => block.shards))
          expect(keepersOf(shard), `seed ${seed}`).toContain(shard.uploader ?? shard.peer);
        const seconds = names.map((name) => {
          const elements = uploadsOf(after, peerId(name), undefined).reduce((sum, { range: [a, b] }) => sum + b - a, 0);
          return elements / (homes[name]?.rate ?? 1);
        });
        expect(savingSeconds(lines, after), `seed ${seed}`).toBeCloseTo(Math.max(...seconds), 9);
        expect(savingSeconds(lines, after), `seed ${seed}`).toBeLessThanOrEqual(savingSeconds(lines, plan));
      }
    });
  });

  it('a plan for a cluster names them, and says what a checkpoint takes then', () => {
    const rates: Readonly<Record<string, number>> = { a: 50, b: 50, c: 5_000 };
    const lines = linesOf(Object.fromEntries(Object.entries(rates).map(([id, rate]) => [id, { rate }])));
    const peers = lines.peers.map(({ id }) => ({
      ...{ id, memoryBytes: 1e9, flopsPerSecond: 1e7, uploadBytesPerSecond: (rates[id] ?? 1) * ELEMENT_BYTES },
    }));
    const cluster = parseCluster({ peers, links: { default: { latencySeconds: 0.01 } } }, 'c.json');
    invariant(cluster.ok, cluster.ok ? '' : cluster.reason);
    const found = planCluster(
      { model, batch, cluster: cluster.value, replicas: replicaWish(2) },
      ({ work }) => work < 100,
    );
    invariant(found.ok, found.ok ? '' : found.reason);
    const { plan, reasons } = found.value;
    const slow = plan.state.flatMap(({ shards }) => shards.filter(({ peer }) => peer !== ('c' as PeerId)));
    expect(uploadersIn(plan).filter((one) => one === 'c')).toHaveLength(slow.length);
    if (slow.length > 0) expect(reasons).toEqual(expect.arrayContaining(uploadReasons(lines, plan)));
  });
});
