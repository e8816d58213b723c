import { expect, test } from 'vitest';
import { peerId, seededRandom } from '../base.ts';
import { keepersOf, type Plan, peers, problems } from '../plan/plan.ts';
import { outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { withAllowedCuts } from './allowedCuts.ts';
import { equalSplit } from './equalSplit.ts';
import { withReplicas } from './replicas.ts';

const islands = (chunk: number) =>
  ({ count: 2, exchange: { top: 2, chunk, feedback: 0.95 }, publish: 'f32', innerSteps: 3 }) as never;

test('[PL22] a plan made for islands has no other cuts, covers what it covered, and has nobody else', () => {
  let moved = 0;
  for (let seed = 1; seed <= 300; seed++) {
    const { model, samples, plan } = randomPlan(seededRandom(seed));
    const batch = { samples, islands: islands(5) };
    const cut = withAllowedCuts(model, batch.islands, plan);
    expect(problems(model, batch, cut), `seed ${seed}`).toEqual([]);
    expect(peers(cut).every((peer) => peers(plan).includes(peer))).toBe(true);
    if (problems(model, batch, plan).some(({ rule }) => rule === 'PL22')) moved++;
    else expect(cut).toEqual(plan);
  }
  expect(moved).toBeGreaterThan(50);
});

test('[PL22] a shard that is cut for a replica without room is cut there too', () => {
  const model = outlineModel(1, true);
  const [a, b] = ['a', 'b'].map(peerId);
  if (!a || !b) throw new Error('two peers');
  const wide = { ...model, blocks: model.blocks.map((block) => scaled(block, 100)) };
  const run = { samples: 4, islands: islands(300) };
  const plan = equalSplit(wide, 4, [a]);
  const bytes = (kept: Plan['state']): number =>
    kept.flatMap(({ shards }) => shards).reduce((sum, { range: [from, to] }) => sum + 16 * (to - from), 0);
  const placed = withReplicas({
    ...{ model: wide, plan, count: 1, candidates: [a, b], before: null, islands: run.islands },
    roomBytes: (peer, kept) => (peer === a ? 1e9 : 16 * 5_000) - bytes(kept),
    byteCost: () => 1,
    nearness: () => 0,
  });
  expect(placed.state.some(({ shards }) => shards.length > 1)).toBe(true);
  expect(placed.state.flatMap(({ shards }) => shards).some((shard) => keepersOf(shard).length > 1)).toBe(true);
  expect(problems(wide, run, placed)).toEqual([]);
});

const scaled = (block: ReturnType<typeof outlineModel>['blocks'][number], by: number) => ({
  ...block,
  elements: block.elements * by,
  tensors: block.tensors.map((tensor) => ({ ...tensor, offset: tensor.offset * by, elements: tensor.elements * by })),
});
