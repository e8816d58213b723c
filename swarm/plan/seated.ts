/** A plan file, or a plan made for others, with the donors at hand in its places. */
import { invariant, type PeerId } from '../base.ts';
import { type Plan, peers } from './plan.ts';

/** The plan with the n-th peer in its place that is the n-th here. */
export function seated(plan: Plan, seats: readonly PeerId[]): Plan {
  const named = peers(plan);
  invariant(named.length === seats.length, `a plan of ${named.length} peers has no seats for ${seats.length}`);
  const seat = new Map(named.map((peer, index) => [peer, seats[index] ?? peer]));
  const of = (peer: PeerId): PeerId => seat.get(peer) ?? peer;
  return {
    ...plan,
    stages: plan.stages.map((stage) => ({
      ...stage,
      members: stage.members.map((member) => ({ ...member, peer: of(member.peer) })),
    })),
    state: plan.state.map(({ block, shards }) => ({
      block,
      shards: shards.map(({ uploader, ...shard }) => ({
        ...{ ...shard, peer: of(shard.peer), replicas: shard.replicas.map(of) },
        ...(uploader && { uploader: of(uploader) }),
      })),
    })),
    ...(plan.links && { links: plan.links.map((link) => ({ ...link, from: of(link.from), to: of(link.to) })) }),
    ...(plan.lines && { lines: plan.lines.map((line) => line.map(of)) }),
  };
}
