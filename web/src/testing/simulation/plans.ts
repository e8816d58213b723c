/** The plans of a simulation: whatever the rules allow, so that its end must not depend on them. */
import { evenRanges, type PeerId, type Random, type Range } from '../../../../swarm/base.ts';
import type { Model } from '../../../../swarm/model/model.ts';
import type { BlockState, Plan, PlanStage } from '../../../../swarm/plan/plan.ts';
import { randomPlanFor } from '../../../../swarm/testing/randomPlan.ts';

/** Copies of each shard, beside its primary's. */
export const REPLICAS = 1;
const MICRO_BATCHES = 3;

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
      const carried = own.reduce((sum, one) => sum + size(one), 0);
      return { peer, microBatches: own.map(({ id }) => id), samples: carried, recompute: [] };
    });
    return { layers, members };
  });
  const state = model.blocks.map(
    ({ name, elements }, place): BlockState => ({
      block: name,
      shards: evenRanges(elements, 2).map((range, half) => {
        const keeper = place + half * (peers.length - 1);
        const replicas = Array.from({ length: Math.min(REPLICAS, peers.length - 1) }, (_, i) => seat(keeper + 1 + i));
        return { peer: seat(keeper), range, replicas };
      }),
    }),
  );
  return { stages, microBatches, state, schedule: '1f1b' };
};

/** Anyone anywhere. */
export const anyPlan =
  (random: Random): MakePlan =>
  (model, samples, peers) =>
    randomPlanFor(random, model, samples, peers, { recompute: 0.2, replicas: REPLICAS * 0.4 });
