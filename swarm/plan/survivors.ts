/**
 * Whom the state of a plan is left with when members are gone: of each shard the keepers that still have it, in the plan's
 * order, the first of them its primary from now on. Rules RE in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import type { Plan, Shard } from './plan.ts';
import { keptBy } from './uploader.ts';

/** The plan with every shard at its first keeper that has it; null: a shard is left with nobody. */
export function survivors(plan: Plan, has: (peer: PeerId, block: string, shard: Shard) => boolean): Plan | null {
  let isWhole = true;
  const state = plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.flatMap((shard) => {
      const [peer, ...replicas] = [shard.peer, ...shard.replicas].filter((keeper) => has(keeper, block, shard));
      if (peer !== undefined) return keptBy(shard, peer, replicas);
      isWhole = false;
      return [];
    }),
  }));
  return isWhole ? { ...plan, state } : null;
}
