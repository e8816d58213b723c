/** For tests: a plan with so many replicas of each shard, at the peers that follow its primary in the plan's order; the first of them uploads every second one. */
import { got } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';

export function ringReplicas(plan: Plan, count: number): Plan {
  const ring = peers(plan);
  const places = new Map(ring.map((peer, place) => [peer, place]));
  const after = (place: number) =>
    [...ring.slice(place + 1), ...ring.slice(0, place)].slice(0, Math.min(count, ring.length - 1));
  return {
    ...plan,
    state: plan.state.map(({ block, shards }) => ({
      block,
      shards: shards.map((shard) => {
        const replicas = after(got(places, shard.peer));
        const [uploader] = got(places, shard.peer) % 2 === 0 ? replicas : [];
        return { ...shard, replicas, ...(uploader && { uploader }) };
      }),
    })),
  };
}
