/** What a step sends of state, who keeps how much of it, and what is updated in main memory. */
import { overlap, type Range } from '../base.ts';
import { blocksOfStage } from '../model/model.ts';
import { codedParts, holdsPart } from '../plan/codedState.ts';
import { gatheringHome, keepersOf, type Plan } from '../plan/plan.ts';
import { packedBytes } from '../wire.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { flow } from './flow.ts';
import { hostUpdates } from './hostUpdates.ts';

/** Gradient slices from every holder to the shard's keepers, values from its primary to holders, copies of them to replicas; elements that each one keeps, and those of them in main memory, with their updates. */
export function stateExchange(costs: ClusterCosts, plan: Plan) {
  const { model } = costs;
  const [slices, values, copies] = [flow(), flow(), flow()];
  const encoding = plan.stateWire ?? 'f32';
  const [kept, hosted] = [new Map<number, number>(), new Map<number, number>()];
  const uses = plan.stages.flatMap((stage) => {
    const places = stage.members.map(({ peer }) => costs.placeOf(peer));
    return blocksOfStage(model, stage.layers)
      .filter(({ block }) => gatheringHome(plan, block) !== stage)
      .map((use) => ({ ...use, places }));
  });
  const usesOf = new Map<string, typeof uses>();
  for (const use of uses) usesOf.set(use.block, [...(usesOf.get(use.block) ?? []), use]);
  for (const { block, shards } of plan.state) {
    for (const shard of shards) {
      const { range } = shard;
      const primary = costs.placeOf(shard.peer);
      const keepers = keepersOf(shard).map(costs.placeOf);
      const elements = range[1] - range[0];
      const codes = plan.stateWire && codedParts(usesOf.get(block) ?? [], range);
      // Who computes with all of it gets its values anyway.
      const served = new Set([primary]);
      for (const keeper of keepers)
        for (const of of shard.in === 'host' ? [kept, hosted] : [kept])
          of.set(keeper, (of.get(keeper) ?? 0) + elements);
      for (const { places, ranges } of usesOf.get(block) ?? []) {
        const used = ranges.reduce((sum, part) => {
          const [from, to] = overlap(part, range) ?? [0, 0];
          return sum + to - from;
        }, 0);
        if (used === 0) continue;
        const bytes = (parts: readonly Range[]): number =>
          parts.reduce((sum, [from, to]) => sum + packedBytes(encoding, to - from), 0);
        const own = ranges.map((part) => overlap(part, range)).filter((part) => part !== null);
        const sent = bytes(own);
        const back = codes ? bytes(codes.filter((part) => holdsPart({ ranges }, part))) : sent;
        for (const holder of places) {
          for (const keeper of keepers) if (holder !== keeper) slices.add(holder, keeper, sent);
          if (holder !== primary) values.add(primary, holder, back);
          if (used === elements) served.add(holder);
        }
      }
      if (plan.stateWire) continue; // replicas update masters of their own
      for (const keeper of keepers)
        if (!served.has(keeper)) copies.add(primary, keeper, packedBytes(encoding, elements));
    }
  }
  const inMemory = [...hosted.keys()].flatMap((place) => costs.peers[place]?.id ?? []);
  return { slices, values, copies, kept, hosted, updates: hostUpdates(model, plan, inMemory) };
}
