/** The plans of a simulation: whatever the rules allow, so that its end must not depend on them. */
import { arrayOf, at, evenRanges, type PeerId, type Random, type Range, totalOf } from '../../../../swarm/base.ts';
import type { Model } from '../../../../swarm/model/model.ts';
import {
  type BlockState,
  type Gathered,
  homeStage,
  type Plan,
  type PlanStage,
  peers,
  type Shard,
} from '../../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../../swarm/planner/equalSplit.ts';
import { randomPlanFor } from '../../../../swarm/testing/randomPlan.ts';

/** Copies of each shard, beside its primary's. */
export const REPLICAS = 1;
const MICRO_BATCHES = 3;
/** T. */
export const SEQUENCE = 3;

export type MakePlan = (model: Model, samples: number, peers: readonly PeerId[]) => Plan;

/**
 * A pipeline of three stages, as far as there are donors: the first stage has lanes from the fourth donor on, the fifth
 * keeps state and computes nothing. Each block is cut in two, between who computes with it and the next one.
 */
export const pipeline: MakePlan = (model, samples, peers) => {
  const seat = (index: number): PeerId => peers[index % peers.length] ?? (peers[0] as PeerId);
  const microBatches = evenRanges(samples, MICRO_BATCHES).map((range, id) => ({ id, samples: range }));
  const size = ({ samples: [from, to] }: { readonly samples: Range }): number => to - from;
  const crews = peers.length < 4 ? peers.map((peer) => [peer]) : [[seat(0), seat(3)], [seat(1)], [seat(2)]];
  const stages = evenRanges(model.layers, Math.min(crews.length, model.layers)).map((layers, index): PlanStage => {
    const crew = crews[index] ?? [];
    const members = crew.map((peer, lane) => {
      const own = microBatches.filter(({ id }) => id % crew.length === lane);
      const carried = totalOf(own, (one) => size(one));
      return { peer, microBatches: own.map(({ id }) => id), samples: carried, recompute: [] };
    });
    return { layers, members };
  });
  const state = model.blocks.map(
    ({ name, elements }, place): BlockState => ({
      block: name,
      shards: evenRanges(elements, 2).map((range, half) => {
        const keeper = place + half * (peers.length - 1);
        const replicas = arrayOf(Math.min(REPLICAS, peers.length - 1), (i) => seat(keeper + 1 + i));
        return { peer: seat(keeper), range, replicas };
      }),
    }),
  );
  return { stages, microBatches, state, schedule: '1f1b', rows: SEQUENCE };
};

/** Anyone anywhere, and state too: here and there gathered, each block once a pass now and then, or in main memory. A replica uploads where there is one. */
export const anyPlan =
  (random: Random): MakePlan =>
  (model, samples, members) => {
    const often = { recompute: 0.2, replicas: REPLICAS * 0.4, host: 0.2 };
    const apart = { ...often, gathered: 0.3, apart: 0.2, layered: 0.2 };
    const drawn = randomPlanFor(random, model, samples, members, apart);
    // Who gathers nothing may be left with nothing, and all who were expected have a part.
    const whole = peers(drawn).length === members.length;
    const plan = whole ? drawn : randomPlanFor(random, model, samples, members, often);
    return { ...uploadedByReplicas(plan), rows: SEQUENCE };
  };

const uploadedByReplicas = (plan: Plan): Plan => ({
  ...plan,
  state: plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard): Shard => {
      const uploader = shard.replicas.at(-1);
      return { ...shard, ...(uploader && { uploader }) };
    }),
  })),
});

/**
 * Two stages, the first gathers, one layer at a time or two as the donors are many; each primary of a later one has its
 * largest shard in main memory. A donor alone has all of it whole, and in main memory.
 */
export const sparing: MakePlan = (model, samples, peers) => {
  const stages = Math.min(2, peers.length);
  const split = equalSplit(model, samples, peers, { stages, microBatches: MICRO_BATCHES, schedule: '1f1b' });
  const whole = peers.length % 2 === 0 ? 1 : 2;
  const gathering = split.stages.map((stage, index) =>
    index === 0 && stage.members.length > 1 ? { ...stage, gathered: whole as Gathered } : stage,
  );
  const state = split.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard, place): Shard => {
      const home = at(gathering, homeStage(split, block));
      // What is gathered is kept by those who gather it.
      const others = home.gathered ? home.members.map(({ peer }) => peer) : peers;
      const replicas = others.filter((peer) => peer !== shard.peer).slice(0, REPLICAS);
      return { ...shard, replicas, ...(place === 0 && { in: 'host' as const }) };
    }),
  }));
  return { ...split, stages: gathering, state };
};
