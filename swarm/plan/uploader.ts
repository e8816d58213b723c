/**
 * Who uploads a shard for checkpoints: its primary, or the one of its replicas that the plan names, as its line is better.
 * The others tell what they have of it, and are compared with that. Rules RE in SPEC.md.
 */
import type { PeerId, Range } from '../base.ts';
import type { BlockName } from '../model/model.ts';
import type { Plan, Shard } from './plan.ts';

/** `excused`: uploaders that are not known to have their copies now; the primaries upload those. */
export const uploaderOf = ({ peer, uploader = peer }: Shard, excused: readonly PeerId[] = []): PeerId =>
  excused.includes(uploader) ? peer : uploader;

/** What this peer uploads. */
export const uploadsOf = (
  { state }: Pick<Plan, 'state'>,
  peer: PeerId,
  excused: readonly PeerId[] | undefined,
): { readonly block: BlockName; readonly range: Range }[] =>
  state.flatMap(({ block, shards }) =>
    shards.flatMap((shard) => (uploaderOf(shard, excused) === peer ? { block, range: shard.range } : [])),
  );

/** The shard at other keepers: who uploads it is named as long as it is one of the replicas. */
export function keptBy({ uploader, ...shard }: Shard, peer: PeerId, replicas: readonly PeerId[]): Shard {
  const isThere = uploader !== undefined && replicas.includes(uploader);
  return { ...shard, peer, replicas, ...(isThere && { uploader }) };
}
