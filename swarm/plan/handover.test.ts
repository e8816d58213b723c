import fc from 'fast-check';
import { expect, test } from 'vitest';
import { arrayOf, outside, overlap, type PeerId, peerId, seededRandom } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { holdings, transfers } from './handover.ts';
import { type Plan, peers } from './plan.ts';
import { STATE_KINDS } from './stateKinds.ts';

const names = (count: number): PeerId[] => arrayOf(count, (i) => peerId(`p${i}`));

test('[HO1] a newcomer gets the last layer and its moments from the one that had them; the head stays where it was', () => {
  const model = outlineModel(2, false);
  const before = equalSplit(model, 4, names(1), { microBatches: 2 });
  const after = equalSplit(model, 4, names(2), { microBatches: 2 });
  const moved = transfers(model, STATE_KINDS, before, after).filter(({ from, to }) => from !== to);
  expect(new Set(moved.map(({ from, to }) => `${from} to ${to}`))).toEqual(new Set(['p0 to p1']));
  expect(new Set(moved.map(({ block, kind }) => `${block} ${kind}`))).toEqual(
    new Set(['layer.1', 'head'].flatMap((block) => STATE_KINDS.map((kind) => `${block} ${kind}`))),
  );
});

test('[HO1] who leaves gives only what nobody else has', () => {
  const model = outlineModel(2, false);
  const [leaver, keeper, newcomer] = [peerId('leaver'), peerId('keeper'), peerId('newcomer')];
  const whole = equalSplit(model, 4, [leaver], { microBatches: 2 });
  const before: Plan = {
    ...whole,
    state: whole.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => ({ ...shard, replicas: block === 'head' ? [] : [keeper] })),
    })),
  };
  const moved = transfers(model, STATE_KINDS, before, equalSplit(model, 4, [newcomer, keeper], { microBatches: 2 }));
  const ways = new Set(
    moved.filter(({ from, to }) => from !== to).map(({ from, to, block }) => `${from} ${to} ${block}`),
  );
  // The keeper has layer.1 already; the head has no copy.
  expect(ways).toEqual(new Set(['keeper newcomer embedding', 'keeper newcomer layer.0', 'leaver keeper head']));
});

/** Each element of each need, counted by brute force. */
function check(model: ReturnType<typeof outlineModel>, before: Plan, after: Plan, keptOnly = false): void {
  const list = transfers(model, STATE_KINDS, before, after, keptOnly);
  for (const to of peers(after)) {
    for (const { name: block, elements } of model.blocks) {
      for (const kind of STATE_KINDS) {
        const counted = new Uint8Array(elements);
        for (const transfer of list) {
          if (transfer.to !== to || transfer.block !== block || transfer.kind !== kind) continue;
          // Of moments a peer has what it is keeper of.
          const has = holdings(model, before, transfer.from, block, keptOnly ? 'm' : kind);
          expect(has.some((range) => overlap(range, transfer.range)?.join() === transfer.range.join())).toBe(true);
          for (let i = transfer.range[0]; i < transfer.range[1]; i++)
            counted[i] = (counted[i] ?? outside(counted, i)) + 1;
        }
        const needed = new Uint8Array(elements);
        for (const [from, end] of holdings(model, after, to, block, kind)) needed.fill(1, from, end);
        expect(counted).toEqual(needed);
      }
    }
  }
}

test('[HO1] [HO2] every need is met once, from someone who has it, between any two plans of a model', () => {
  fc.assert(
    fc.property(fc.nat(1e6), fc.integer({ min: 1, max: 4 }), (seed, donors) => {
      const { model, plan } = randomPlan(seededRandom(seed));
      const split = equalSplit(model, 8, names(Math.min(donors, model.layers)), { microBatches: 4 });
      check(model, plan, split);
      check(model, split, plan);
      check(model, plan, split, true);
      check(model, split, plan, true);
    }),
    { numRuns: 60 },
  );
});
