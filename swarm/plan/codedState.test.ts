import fc from 'fast-check';
import { expect, test } from 'vitest';
import { arrayOf, at, got, overlap, type PeerId, peerId, type Range, seededRandom, totalOf } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { parseCluster } from '../planner/cluster.ts';
import { clusterCosts } from '../planner/clusterCosts.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { replicated } from '../planner/replicas.ts';
import { outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { arrivalTensors } from '../ways/partners.ts';
import { stepTraffic } from '../ways/stepTraffic.ts';
import { stepTensors, wholeValues } from '../ways/tensors.ts';
import { codedParts } from './codedState.ts';
import { transfers } from './handover.ts';
import { holders, keepersOf, type Plan, peers, problems } from './plan.ts';
import { STATE_KINDS } from './stateKinds.ts';
import { withStateSent } from './tokenRows.ts';

const INT8 = { stateWire: 'int8' } as const;
const SIZE = { sequence: 5, wire: 'f32' } as const;
const names = (count: number): PeerId[] => arrayOf(count, (i) => peerId(`p${i}`));

test('[WI30] two lanes: a scale for each 64 elements of a piece, and a byte an element, filled up to words', () => {
  const model = outlineModel(1, false);
  const plan = { ...equalSplit(model, 6, names(2), { stages: 1 }), ...INT8 };
  const bytes = totalOf(plan.state, ({ shards }) =>
    totalOf(shards, ({ range: [from, to] }) => 4 * (Math.ceil((to - from) / 64) + Math.ceil((to - from) / 4))),
  );
  expect(stepTraffic(model, plan, SIZE)).toEqual({ activation: 0, gradient: 0, slice: bytes, values: bytes });
});

test('[WI31] [WI32] [WI33] any plan: sums to each keeper elsewhere, values to each holder elsewhere, once and as codes', () => {
  fc.assert(
    fc.property(fc.nat(1e6), (seed) => {
      const { model, plan: split } = randomPlan(seededRandom(seed));
      const plan = { ...split, ...INT8 };
      const known = holders(model, plan);
      for (const tensors of [stepTensors(model, plan, SIZE), wholeValues(model, plan)]) {
        const isWhole = tensors.every(({ tensor }) => tensor.encoding === undefined);
        for (const { name, elements } of model.blocks) {
          const index = model.blocks.findIndex((block) => block.name === name);
          const shardAt = (element: number) =>
            plan.state
              .find(({ block }) => block === name)
              ?.shards.find(({ range }) => range[0] <= element && element < range[1]);
          for (const holder of got(known, name))
            for (const range of holder.ranges)
              for (let element = range[0]; element < Math.min(range[1], elements); element += 3) {
                const shard = shardAt(element);
                const of = (kind: string, stage: number) =>
                  tensors.filter(
                    ({ tensor }) =>
                      tensor.kind === kind &&
                      tensor.stage === stage &&
                      tensor.index === index &&
                      overlap(tensor.range, [element, element + 1]) !== null,
                  );
                const values = of('values', holder.stage).filter(({ to }) => to === holder.peer);
                expect(values.map(({ from }) => from)).toEqual(shard?.peer === holder.peer ? [] : [shard?.peer]);
                if (isWhole) continue;
                const sums = of('slice', holder.stage).filter(({ from }) => from === holder.peer);
                const keepers = shard ? keepersOf(shard).filter((keeper) => keeper !== holder.peer) : [];
                expect(new Set(sums.map(({ to }) => to))).toEqual(new Set(keepers));
                for (const { tensor } of [...values, ...sums]) expect(tensor.encoding).toBe('int8');
              }
        }
      }
    }),
    { numRuns: 30 },
  );
});

test('[WI33] a tied head has the same pieces of the table as who has the whole block', () => {
  const order = [{ ranges: [[0, 1_100]] as Range[] }, { ranges: [[0, 1_000]] as Range[] }];
  expect(codedParts(order, [300, 1_100])).toEqual([
    [300, 1_000],
    [1_000, 1_100],
  ]);
  // What nobody computes with goes to nobody.
  expect(codedParts([at(order, 1)], [300, 1_100])).toEqual([[300, 1_000]]);
});

test('[WI36] each value comes from the first keeper who stays, also to the other keepers', () => {
  fc.assert(
    fc.property(fc.nat(1e6), fc.integer({ min: 1, max: 3 }), (seed, count) => {
      const { model, plan: before } = randomPlan(seededRandom(seed));
      const after = equalSplit(model, 8, peers(before).slice(0, Math.min(count, model.layers)), { microBatches: 4 });
      const stay = peers(after);
      for (const { from, block, range } of transfers(model, ['value'], { ...before, ...INT8 }, after)) {
        const shards = before.state.find((one) => one.block === block)?.shards ?? [];
        for (const shard of shards.filter((one) => overlap(one.range, range) !== null))
          expect(from).toBe(keepersOf(shard).find((keeper) => stay.includes(keeper)) ?? shard.peer);
      }
      // Moments stay where they are.
      const moments = (plan: Plan) => transfers(model, ['m', 'v'], plan, after);
      expect(moments({ ...before, ...INT8 })).toEqual(moments(before));
    }),
    { numRuns: 40 },
  );
});

test('[WI34] an epoch of the same plan begins with all values as floats', () => {
  const model = outlineModel(2, true);
  const plan = { ...equalSplit(model, 6, names(2), { stages: 1 }), ...INT8 };
  const sizes = { ...SIZE, model, asked: 'f32' } as const;
  const sent = arrivalTensors(sizes, plan, { from: 'kept' });
  expect(sent.length).toBeGreaterThan(0);
  for (const { tensor } of sent) expect(tensor).toMatchObject({ kind: 'values' });
  expect(sent.some(({ tensor }) => tensor.encoding !== undefined)).toBe(false);
  expect(STATE_KINDS).toContain('value');
});

test('[WI30] a plan that sends its state in another way than the run file says is refused', () => {
  const model = outlineModel(2, true);
  const plan = equalSplit(model, 6, names(2));
  expect(problems(model, { samples: 6, ...INT8 }, { ...plan, ...INT8 })).toEqual([]);
  expect(problems(model, { samples: 6, ...INT8 }, plan)).toMatchObject([{ rule: 'WI30' }]);
  expect(problems(model, { samples: 6 }, { ...plan, ...INT8 })).toMatchObject([{ rule: 'WI30' }]);
});

test('what the planner has each peer send is what a step sends, for up to six donors and two replicas', () => {
  const model = modelFromConfig({
    ...{ model_type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 33 },
    tie_word_embeddings: true,
  });
  if (!model.ok) throw new Error(model.reason);
  // With codes; and of 33 tokens the rows of those of a lane.
  for (const batch of [
    { samples: 12, sequence: 16, wire: 'f32', ...INT8 },
    { samples: 12, sequence: 4, wire: 'f32' },
  ] as const)
    for (let donors = 1; donors <= 6; donors++) {
      const ids = names(donors);
      const cluster = parseCluster({ peers: ids.map((id) => ({ id, memoryBytes: 1e9, flopsPerSecond: 1e9 })) }, 'it');
      if (!cluster.ok) throw new Error(cluster.reason);
      const costs = clusterCosts({ model: model.value, batch, cluster: cluster.value });
      for (const stages of [1, Math.min(donors, 3)])
        for (let count = 0; count <= 2; count++) {
          const wish = { count, isAsked: true, sites: {}, before: null };
          const split = withStateSent(model.value, equalSplit(model.value, batch.samples, ids, { stages }), batch);
          const { plan, forecast } = replicated(costs, split, wish);
          const sent = totalOf(forecast.peers.values(), ({ sentBytes }) => sentBytes);
          const { activation, gradient, slice, values } = stepTraffic(model.value, plan, batch);
          expect(activation + gradient + slice + values, `${donors} donors, ${stages} stages, ${count} replicas`).toBe(
            sent,
          );
        }
    }
});
