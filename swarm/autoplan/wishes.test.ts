import { expect, test } from 'vitest';
import { invariant, peerId, refusal, success, totalOf } from '../base.ts';
import { hostBytes } from '../memory/memory.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { withStateSent } from '../plan/tokenRows.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { donors, outlineModel } from '../testing/randomPlan.ts';
import { gatheredPlan, layeredPlan, mainMemoryPlan } from '../testing/statePlans.ts';
import { answerTo, answerWished, capacityOf, type PlanWishes, planWished } from './wishes.ts';

const model = outlineModel(2, true);
const batch = { samples: 6, sequence: 4 };

test('the equal split for as many donors as a layer has lanes for, else its refusal', () => {
  const wishes = { stages: 1, schedule: '1f1b' } as const;
  const makePlan = planWished(model, batch, wishes);
  expect(capacityOf(model, wishes)).toBe(8);
  const plan = makePlan(donors(6), new Map());
  expect(plan).toEqual({ ok: true, value: withStateSent(model, equalSplit(model, 6, donors(6), wishes), batch) });
  expect(makePlan(donors(7), new Map())).toMatchObject({
    ok: false,
    reason: expect.stringContaining('not every one of 7'),
  });
});

test('[PL12] a given plan seats the donors in the order in which it names its peers; fewer have the equal split', () => {
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

test('those that give least are done without, of equals the last to come, but for whom is needed', () => {
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

test('donors who cannot have a schedule have the nearest, and the reason says so', () => {
  const deep = outlineModel(6, true);
  const made = (count: number, wishes: PlanWishes, needed = false) => {
    const offer = donors(count).map((peer) => ({ peer, memoryBytes: null, isNeeded: needed }));
    const found = answerWished({ purpose: 'now', offer, inForce: null }, deep, { samples: 12, sequence: 4 }, wishes);
    if (found.answer !== 'plan') return found.answer;
    const { plan, instead } = found;
    const said = instead === undefined ? null : instead.slice(instead.lastIndexOf(': ') + 2);
    return [plan.schedule, peers(plan).length, plan.stages.length, plan.stages[0]?.members.length, said];
  };
  const interleaved = { schedule: 'interleaved', chunks: 3 } as const;
  expect([2, 3, 5, 7].map((count) => made(count, interleaved))).toEqual([
    ['interleaved', 2, 6, 1, null],
    ['interleaved', 3, 6, 1, 'chunks 2'],
    ['interleaved', 5, 5, 1, 'chunks 1'],
    ['1f1b', 7, 6, 1, '1f1b'],
  ]);
  const chimera = { schedule: 'chimera', pairs: 2 } as const;
  expect([1, 2, 3, 4, 5, 6, 7, 8].map((count) => made(count, chimera))).toEqual([
    ['1f1b', 1, 1, 1, '1f1b'],
    ['chimera', 2, 2, 2, 'pairs 1'],
    ['chimera', 2, 2, 2, 'one donor fewer, pairs 1'],
    ['chimera', 4, 4, 4, null],
    ['chimera', 4, 4, 4, 'one donor fewer'],
    ['chimera', 6, 6, 2, 'pairs 1'],
    ['chimera', 6, 6, 2, 'one donor fewer, pairs 1'],
    ['1f1b', 8, 6, 2, '1f1b'],
  ]);
  // Nobody can be done without.
  expect(made(3, chimera, true)).toEqual(['1f1b', 3, 3, 1, '1f1b']);
  const given = equalSplit(deep, 12, donors(4), chimera);
  expect(made(4, { plan: given })).toEqual(['chimera', 4, 4, 4, null]);
  expect(made(2, { plan: given })).toEqual(['chimera', 2, 2, 2, 'pairs 1']);
  expect(made(2, { schedule: '1f1b', warmup: 'overlap' })).toEqual(['1f1b', 2, 2, 1, null]);
});

/** Elements of each block that lie in main memory. */
const hostedIn = ({ state }: Plan): Record<string, number> =>
  Object.fromEntries(
    state.map(({ block, shards }) => [
      block,
      totalOf(shards, ({ range: [from, to], in: place }) => (place === 'host' ? to - from : 0)),
    ]),
  );

test('other donors than a plan has keep its gathering, where a stage has somebody to gather from', () => {
  const deep = outlineModel(4, true);
  const run = { samples: 8, sequence: 4 };
  const makePlan = planWished(deep, run, { plan: gatheredPlan(deep, 8, donors(4)) });
  for (const count of [2, 3, 5, 8]) {
    const made = makePlan(donors(count), new Map());
    invariant(made.ok, `${count} donors`);
    expect(problems(deep, run, made.value)).toEqual([]);
    expect(made.value.stages.map(({ members, gathered }) => [members.length, gathered])).toEqual([[count, 1]]);
  }
  const alone = makePlan(donors(1), new Map());
  expect(alone).toEqual({ ok: true, value: equalSplit(deep, 8, donors(1), { schedule: '1f1b', stages: 1 }) });
});

test('[PL64] once a pass stays once a pass, while all have one stage', () => {
  const deep = outlineModel(4, true);
  const run = { samples: 8, sequence: 4 };
  const makePlan = planWished(deep, run, { plan: layeredPlan(deep, 8, donors(4)) });
  for (const count of [2, 3]) {
    const made = makePlan(donors(count), new Map());
    invariant(made.ok, `${count} donors`);
    expect(problems(deep, run, made.value)).toEqual([]);
    expect(made.value.stages).toMatchObject([{ gathered: 1, layered: true }]);
  }
});

test('the same ranges of state lie in main memory, as far as those who keep them give some', () => {
  const deep = outlineModel(4, true);
  const run = { samples: 8, sequence: 4 };
  const given = mainMemoryPlan(deep, 8, donors(4));
  const makePlan = planWished(deep, run, { plan: given });
  for (const count of [1, 2, 3, 6]) {
    const peersNow = donors(count);
    const made = (bytes: number): Plan => {
      const found = makePlan(peersNow, new Map(), new Map(peersNow.map((peer) => [peer, bytes])));
      invariant(found.ok, `${count} donors`);
      expect(problems(deep, run, found.value)).toEqual([]);
      for (const peer of peersNow) expect(hostBytes(found.value, peer, undefined)).toBeLessThanOrEqual(bytes);
      return found.value;
    };
    expect(hostedIn(made(1e9))).toEqual(hostedIn(given));
    const none = hostedIn(made(0));
    expect(new Set(Object.values(none))).toEqual(new Set([0]));
  }
});
