import { expect, test } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { donors, outlineModel } from '../../swarm/testing/randomPlan.ts';
import { planTerms } from './planning.ts';

const model = outlineModel(2, true);

test('the equal split for as many donors as a layer has lanes for, else its refusal', () => {
  const { makePlan, capacity } = planTerms(model, { samples: 6, sequence: 4 }, { stages: 1, schedule: '1f1b' });
  expect(capacity).toBe(8);
  const plan = makePlan(donors(6), new Map());
  expect(plan).toEqual({ ok: true, value: equalSplit(model, 6, donors(6), { stages: 1, schedule: '1f1b' }) });
  expect(makePlan(donors(7), new Map())).toMatchObject({
    ok: false,
    reason: expect.stringContaining('not every one of 7'),
  });
});

test('[PL12] [PL17] a given plan seats the donors in the order in which it names its peers; fewer have the equal split', () => {
  const given: Plan = equalSplit(model, 6, [peerId('z'), peerId('a'), peerId('m')], { schedule: '1f1b', stages: 2 });
  const { makePlan, capacity } = planTerms(model, { samples: 6, sequence: 4 }, { plan: given });
  expect(capacity).toBe(3);
  const plan = makePlan(donors(3), new Map());
  expect(plan.ok && peers(plan.value)).toEqual(donors(3));
  expect(plan).toEqual({ ok: true, value: equalSplit(model, 6, donors(3), { schedule: '1f1b', stages: 2 }) });
  expect(makePlan(donors(2), new Map())).toEqual({
    ok: true,
    value: equalSplit(model, 6, donors(2), { schedule: '1f1b' }),
  });
});
