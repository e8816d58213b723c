import { describe, expect, it } from 'vitest';
import { invariant, type PeerId, peerId, seededRandom } from '../base.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import type { Plan, Shard } from '../plan/plan.ts';
import { keepersOf } from '../plan/plan.ts';
import { uploadsOf } from '../plan/uploader.ts';
import { parseCluster } from './cluster.ts';
import { type ClusterCosts, clusterCosts } from './clusterCosts.ts';
import { planCluster } from './clusterPlan.ts';
import { replicaWish } from './replication.ts';
import { savingSeconds, uploadReasons, withUploaders } from './uploaders.ts';

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

describe('[RE88] who uploads a shard', () => {
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
      const shards = Array.from({ length: 8 }, () => {
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

it('[RE88] a plan for a cluster names them, and says what a checkpoint takes then', () => {
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
