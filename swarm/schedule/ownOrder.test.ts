/** Peers that go by what has come to them, one by one, with the policy that the simulator asks. */
import { describe, expect, test } from 'vitest';
import { addToKey, at, got, invariant, type PeerId, type Random, seededRandom, totalOf } from '../base.ts';
import { owner, type Plan, peers } from '../plan/plan.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { simulate } from '../simulate/simulate.ts';
import { donors, outlineModel, randomPlan } from '../testing/randomPlan.ts';
import { type ComputeAction, formatAction, isCompute } from './action.ts';
import { build } from './lower.ts';
import { ownOrder, policyOf, policyWork } from './ownOrder.ts';
import { firstLayers, recomputing } from './recompute.ts';
import { freedBy, planSlots } from './slots.ts';
import { awaitsBeginning } from './varuna.ts';

/** Whoever is free does what it may; what is on its way comes in any order. What each did, one after the other. */
function played(plan: Plan, random: Random): ReadonlyMap<PeerId, readonly string[]> {
  const policy = policyOf(plan);
  invariant(policy, 'an order that follows messages');
  const orders = new Map(peers(plan).map((peer) => [peer, ownOrder(plan, policy, peer)]));
  const done = new Map(peers(plan).map((peer): [PeerId, string[]] => [peer, []]));
  const freed = new Map([...build(plan)].map(([peer, list]) => [peer, freedBy(list)]));
  const busy = new Map<PeerId, ComputeAction>();
  const inFlight = new Map<string, number>();
  const again = new Map<PeerId, number>();
  const room = planSlots(plan, build(plan));
  const onTheWay: {
    readonly to: PeerId;
    readonly op: 'F' | 'B' | 'begun';
    readonly stage: number;
    readonly microBatch: number;
  }[] = [];
  const begin = (): void => {
    for (const [peer, order] of orders) {
      const action = busy.has(peer) ? null : order.next();
      if (action === null) continue;
      busy.set(peer, action);
      const { op, stage, microBatch } = action;
      const before = op === 'B' ? awaitsBeginning(plan, stage, microBatch) : null;
      if (before !== null) onTheWay.push({ to: before, op: 'begun', stage, microBatch });
      if (op === 'R') {
        expect(again.get(peer), `${peer} computes one again at a time`).toBeUndefined();
        again.set(peer, microBatch);
      }
      if (op === 'B' && again.get(peer) === microBatch) again.delete(peer);
      if (op !== 'F') continue;
      const place = `${peer} ${action.stage}`;
      addToKey(inFlight, place, 1);
      expect(got(inFlight, place), place).toBeLessThanOrEqual(got(got(room, peer), action.stage));
    }
  };
  const end = (peer: PeerId): void => {
    const action = got(busy, peer);
    const { op, stage, microBatch } = action;
    busy.delete(peer);
    got(done, peer).push(formatAction(action));
    if (op === 'B')
      for (const own of got(freed, peer)(action)) {
        const place = `${peer} ${own}`;
        inFlight.set(place, got(inFlight, place) - 1);
      }
    got(orders, peer).ended(action);
    const next = op === 'F' ? stage + 1 : stage - 1;
    if (next < 0 || next >= plan.stages.length || op === 'R') return;
    const to = owner(plan, next, microBatch);
    if (to !== peer) onTheWay.push({ to, op, stage: next, microBatch });
  };
  for (begin(); busy.size + onTheWay.length > 0; begin()) {
    const chosen = Math.floor(random() * (busy.size + onTheWay.length));
    if (chosen < busy.size) end(at([...busy.keys()], chosen));
    else
      for (const { to, op, stage, microBatch } of onTheWay.splice(chosen - busy.size, 1))
        if (op === 'begun') got(orders, to).begun(stage, microBatch);
        else got(orders, to).arrived(op, stage, microBatch);
  }
  return done;
}

const everything = (plan: Plan): number => totalOf(policyWork(plan, build(plan)).values(), (list) => list.length);

describe('varuna', () => {
  test('[SC26] [SC40] whatever comes when, all is done once, one recompute ahead, in the memory of the plan', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = seededRandom(seed);
      const drawn = randomPlan(random).plan;
      const every = firstLayers([0, at(drawn.stages, drawn.stages.length - 1).layers[1]]);
      const plan: Plan = {
        ...recomputing(drawn, seed % 3 === 0 ? every.filter(() => random() < 0.5) : every),
        ...{ schedule: 'varuna', ...(seed % 2 === 0 && { maxInFlight: 1 + Math.floor(4 * random()) }) },
      };
      const done = [...played(plan, random).values()].flat();
      expect(done, `seed ${seed}`).toHaveLength(everything(plan));
      expect(new Set(done).size, `seed ${seed}`).toBe(done.length);
    }
  });

  test('[SC40] the word of a beginning may come after the gradient', () => {
    const model = outlineModel(2, false);
    const plan = equalSplit(model, 2, donors(2), { schedule: 'varuna', microBatches: 2 });
    const [first] = donors(2);
    const order = ownOrder(plan, policyOf(plan) ?? expect.fail('varuna has a policy'), at([first], 0) as PeerId);
    const run = (text: string): void => {
      const action = order.next();
      expect(action && formatAction(action)).toBe(text);
      if (action) order.ended(action);
    };
    run('0F0');
    run('0F1');
    expect(order.next()).toBeNull();
    order.begun(1, 0);
    run('0R0');
    expect(order.next()).toBeNull();
    order.arrived('B', 0, 0);
    run('0B0');
    order.arrived('B', 0, 1);
    run('0R1');
    order.begun(1, 1);
    run('0B1');
  });

  test('[SC40] the word of a beginning that cannot be is kept until its forward is done', () => {
    const model = outlineModel(2, false);
    const plan = equalSplit(model, 2, donors(2), { schedule: 'varuna', microBatches: 2 });
    const order = ownOrder(
      plan,
      policyOf(plan) ?? expect.fail('varuna has a policy'),
      donors(2)[0] ?? expect.fail('a donor'),
    );
    const run = (text: string): void => {
      const action = order.next();
      expect(action && formatAction(action)).toBe(text);
      if (action) order.ended(action);
    };
    order.begun(1, 1);
    run('0F0');
    run('0F1');
    run('0R1');
  });
});

describe('eager', () => {
  test('[SC15] whatever comes when, all is done once, in the memory that 1f1b has', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = seededRandom(seed);
      const drawn = randomPlan(random).plan;
      const plan: Plan = { ...drawn, schedule: 'eager', ...(seed % 2 === 0 && { warmup: 'overlap' }) };
      const done = [...played(plan, random).values()].flat();
      expect(done, `seed ${seed}`).toHaveLength(everything(plan));
      expect(new Set(done).size, `seed ${seed}`).toBe(done.length);
    }
  });

  test('a peer chooses as the simulator lets it, where things come as they do there', () => {
    const model = outlineModel(4, true);
    const plan = equalSplit(model, 9, donors(4), { schedule: 'eager', microBatches: 9 });
    const costs = {
      forwardSeconds: (stage: number, id: number) => 1 + ((3 * stage + 5 * id) % 7) / 10,
      backwardSeconds: (stage: number, id: number) => 2 + ((5 * stage + 2 * id) % 5) / 10,
      link: () => ({ latencySeconds: 0.3, bytesPerSecond: null }),
      activationBytes: () => 0,
      gradientBytes: () => 0,
    };
    const policy = policyOf(plan) ?? expect.fail('eager has a policy');
    const timeline = simulate(model, plan, build(plan), costs, policy);
    const orders = new Map(donors(4).map((peer) => [peer, ownOrder(plan, policy, peer)]));
    // Ends, and arrivals 0.3 s after them, in the order of time; an arrival at that instant is there before the choice.
    const events = timeline
      .flatMap(({ peer, action, startSeconds, endSeconds }) => [
        { at: startSeconds, rank: 2, peer, action },
        { at: endSeconds, rank: 0, peer, action },
        { at: endSeconds + 0.3, rank: 1, peer, action },
      ])
      .sort((a, b) => (Math.abs(a.at - b.at) < 1e-9 ? a.rank - b.rank : a.at - b.at));
    for (const { rank, peer, action } of events) {
      invariant(isCompute(action) && action.op !== 'R', 'a builder writes F and B');
      const next = action.stage + (action.op === 'F' ? 1 : -1);
      if (rank === 2) expect(got(orders, peer).next()).toEqual(action);
      if (rank === 0) got(orders, peer).ended(action);
      if (rank === 1 && next >= 0 && next < 4)
        got(orders, owner(plan, next, action.microBatch)).arrived(action.op, next, action.microBatch);
    }
  });
});
