/** A plan's shards where a run with islands may cut them: those who make plans share elements out as if they were alike. */
import type { Model } from '../model/model.ts';
import type { Plan } from '../plan/plan.ts';
import { cutElements, cutUpTo, type Packing } from '../plan/shardCuts.ts';

/** The plan with each shard beginning at the last place up to its own where it may; what has nothing then is left out. */
export function withAllowedCuts(model: Pick<Model, 'blocks'>, islands: Packing, plan: Plan): Plan {
  if (cutElements(islands) === 1) return plan;
  const blocks = new Map(model.blocks.map((block) => [block.name, block]));
  const state = plan.state.map(({ block, shards }) => {
    const cutTo = (place: number): number => cutUpTo(blocks.get(block) ?? { tensors: [] }, islands, place);
    const moved = shards.map((shard) => ({ ...shard, range: [cutTo(shard.range[0]), cutTo(shard.range[1])] as const }));
    return { block, shards: moved.filter(({ range: [from, to] }) => from < to) };
  });
  return { ...plan, state };
}
