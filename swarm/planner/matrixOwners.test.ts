import { expect, test } from 'vitest';
import { at, got, peerId, type Range, total } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { matricesOf, trainedModel } from '../model/matrices.ts';
import { type Plan, problems } from '../plan/plan.ts';
import { equalSplit, withAllowedCuts } from './equalSplit.ts';

const parsed = modelFromConfig({
  model_type: 'gpt2',
  n_layer: 5,
  n_head: 2,
  n_embd: 16,
  n_positions: 8,
  vocab_size: 9,
});
if (!parsed.ok) throw new Error(parsed.reason);
const model = trainedModel(parsed.value, 'muon');
const PEERS = ['a', 'b', 'c'].map(peerId);
const batch = { samples: 3 };

/** Of each primary in the layers: elements, and max(r, c)·min(r, c)² of its matrices. */
function loads({ state }: Plan): Map<string, { elements: number; cost: number }> {
  const found = new Map<string, { elements: number; cost: number }>();
  for (const { block, shards } of state.filter(({ block }) => block.startsWith('layer.')))
    for (const { peer, range } of shards) {
      const own = found.get(peer) ?? { elements: 0, cost: 0 };
      const tensors = got(new Map(model.blocks.map((one) => [one.name, one])), block).tensors;
      for (const tensor of tensors)
        if (range[0] <= tensor.offset && tensor.offset < range[1])
          for (const { rows, columns } of matricesOf(tensor))
            own.cost += Math.max(rows, columns) * Math.min(rows, columns) ** 2;
      own.elements += range[1] - range[0];
      found.set(peer, own);
    }
  return found;
}

test('[PL65] a plan that cuts a matrix is refused in one sentence; owners of whole ones have equal work', () => {
  const two = equalSplit(model, 3, PEERS.slice(1), { stages: 1 });
  const [problem] = problems(model, batch, two);
  expect(problem?.rule).toBe('PL65');
  expect(problem?.text).toMatch(
    /^shard \[\d+, \d+\) of layer\.0 begins in the middle of transformer\.h\.0\..*updates whole/,
  );
  expect(problems(parsed.value, batch, two)).toEqual([]);
  const plan = equalSplit(model, 3, PEERS, { stages: 1 });
  const dealt = withAllowedCuts(model, undefined, plan);
  expect(problems(model, batch, dealt)).toEqual([]);
  const costs = [...loads(dealt).values()].map(({ cost }) => cost);
  expect(costs).toHaveLength(3);
  // Longest processing time: within 4/3 of the least makespan.
  expect(Math.max(...costs)).toBeLessThanOrEqual((4 / 3) * (total(costs) / 3));
});

test('who has room for little of a stage gets few of its matrices, who has none gets none', () => {
  const plan = equalSplit(model, 3, PEERS, { stages: 1 });
  const state = plan.state.map(({ block, shards }) => {
    const end = shards.at(-1)?.range[1] ?? 0;
    const cut = Math.round(0.8 * end);
    const of = (place: number, range: Range) => ({ peer: at(PEERS, place), range, replicas: [] });
    return { block, shards: [of(0, [0, cut]), of(1, [cut, end])] };
  });
  const owned = loads(withAllowedCuts(model, undefined, { ...plan, state }));
  const [most, least] = [got(owned, 'a').elements, got(owned, 'b').elements];
  expect(least / (most + least)).toBeGreaterThan(0.1);
  expect(least / (most + least)).toBeLessThan(0.35);
  expect(owned.has('c')).toBe(false);
});
