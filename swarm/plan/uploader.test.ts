import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { SMALL_MODEL } from '../testing/smallClusters.ts';
import { withoutLate } from './lateCopies.ts';
import { type Plan, planSchema, problems, type Shard, seated } from './plan.ts';
import { survivors } from './survivors.ts';

const [A, B, C] = [peerId('a'), peerId('b'), peerId('c')];
const batch = { samples: 4, sequence: 8 };
const withShards = (plan: Plan, change: (shard: Shard) => Shard): Plan => ({
  ...plan,
  state: plan.state.map(({ block, shards }) => ({ block, shards: shards.map(change) })),
});
/** a computes and is the primary of all, copied at b and c; c uploads. */
const plan = withShards(equalSplit(SMALL_MODEL, batch.samples, [A]), (shard) => ({
  ...shard,
  replicas: [B, C],
  uploader: C,
}));
const uploaders = (of: Plan | null) => [
  ...new Set(of?.state.flatMap(({ shards }) => shards.map(({ uploader }) => uploader ?? null))),
];

test('[PL10] a plan file says who uploads, and its places are taken by the donors at hand', () => {
  expect(problems(SMALL_MODEL, batch, plan)).toEqual([]);
  expect(planSchema.parse(JSON.parse(JSON.stringify(plan)))).toEqual(plan);
  expect(uploaders(seated(plan, ['x', 'y', 'z'].map(peerId)))).toEqual(['z']);
});

test('who is left keeps its part: an uploader that is gone, or is the primary now, is none', () => {
  const without = (...gone: string[]) => survivors(plan, (peer) => !gone.includes(peer));
  expect(uploaders(without('b'))).toEqual([C]);
  expect(uploaders(without('c'))).toEqual([null]);
  expect(uploaders(without('a', 'b'))).toEqual([null]);
  for (const left of [without('b'), without('c'), without('a', 'b')])
    expect(left && problems(SMALL_MODEL, batch, left)).toEqual([]);
  const late = plan.state.flatMap(({ block, shards }) => shards.map(({ range }) => ({ from: A, to: C, block, range })));
  expect(uploaders(withoutLate(plan, late))).toEqual([null]);
});
