import { expect, test } from 'vitest';
import { peerId, refusal, success } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { donors, outlineModel } from '../testing/randomPlan.ts';
import { answerTo, capacityOf, planWished } from './wishes.ts';

const model = outlineModel(2, true);
const batch = { samples: 6, sequence: 4 };

test('the equal split for as many donors as a layer has lanes for, else its refusal', () => {
  const wishes = { stages: 1, schedule: '1f1b' } as const;
  const makePlan = planWished(model, batch, wishes);
  expect(capacityOf(model, wishes)).toBe(8);
  const plan = makePlan(donors(6), new Map());
  expect(plan).toEqual({ ok: true, value: equalSplit(model, 6, donors(6), wishes) });
  expect(makePlan(donors(7), new Map())).toMatchObject({
    ok: false,
    reason: expect.stringContaining('not every one of 7'),
  });
});

test('[PL12] [PL17] a given plan seats the donors in the order in which it names its peers; fewer have the equal split', () => {
  const given: Plan = equalSplit(model, 6, [peerId('z'), peerId('a'), peerId('m')], { schedule: '1f1b', stages: 2 });
  const makePlan = planWished(model, batch, { plan: given });
  expect(capacityOf(model, { plan: given })).toBe(3);
  const plan = makePlan(donors(3), new Map());
  expect(plan.ok && peers(plan.value)).toEqual(donors(3));
  expect(plan).toEqual({ ok: true, value: equalSplit(model, 6, donors(3), { schedule: '1f1b', stages: 2 }) });
  expect(makePlan(donors(2), new Map())).toEqual({
    ok: true,
    value: equalSplit(model, 6, donors(2), { schedule: '1f1b' }),
  });
});

test('[LI9] those that give least are done without, of equals the last to come, but for whom is needed', () => {
  const peersOf = (gives: readonly (readonly [bytes: number | null, isNeeded: boolean])[]) => {
    const offer = donors(gives.length).map((peer, index) => {
      const [memoryBytes, isNeeded] = gives[index] ?? [null, false];
      return { peer, memoryBytes, isNeeded };
    });
    const found = answerTo({ purpose: 'now', offer, inForce: null }, (all) =>
      all.length > 2 ? refusal('two are enough') : success(equalSplit(model, 6, all)),
    );
    return found.answer === 'plan' ? peers(found.plan) : found;
  };
  const [a, b, c, d] = donors(4);
  expect(peersOf([7, 5, 9, null].map((bytes) => [bytes, false]))).toEqual([c, d]);
  expect(peersOf([7, 7, 7, 7].map((bytes) => [bytes, false]))).toEqual([a, b]);
  expect(peersOf([7, 5, 9, null].map((bytes) => [bytes, bytes === 5]))).toEqual([b, d]);
  expect(peersOf([7, 5, 9, null].map((bytes) => [bytes, true]))).toEqual({ answer: 'none', reason: 'two are enough' });
});
