/** Words about a checkpoint on its way: who uploads, and what the others have. */
import { z } from 'zod';
import { block, count, hash, peer, range } from '../fields.ts';
import { MOST_STATE_KINDS } from '../plan/stateKinds.ts';
import { SKETCH_SUMS } from '../run/stateSketch.ts';

/**
 * What a keeper has of a shard that another one uploads, at the step of a checkpoint: its SHA-256, and the sums of
 * `StateSketch` by a seed of its own choice.
 */
export const copySchema = z.object({
  ...{ block, range, hash, seed: count },
  sums: z.array(z.array(z.number()).length(SKETCH_SUMS)).max(MOST_STATE_KINDS),
});
export type CopyWord = z.infer<typeof copySchema>;

/** Uploaders of the plan in whose place the primaries upload this checkpoint. Absent: nobody. */
export const excused = z.array(peer).max(65_536).readonly().optional();
