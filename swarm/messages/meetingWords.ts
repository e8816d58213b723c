/**
 * Where what all islands share lies with owners: who has which range of it at a meeting, and who has it from then on. Rules IS
 * in SPEC.md.
 */
import { z } from 'zod';
import { block, count, peer, range } from '../fields.ts';

/** A donor that is in no plan, and owns something, is told of meetings under this one. */
export const NO_EPOCH = 0;

const ownedRange = z.object({
  block,
  range,
  /** Who has it, and works out what comes of the meeting there; the first one publishes that. Empty: `keep` read it from the checkpoint, and do so. */
  have: z.array(peer).max(8),
  /** Who has it when the meeting is over; whoever had it not is sent it by the first of `have`. */
  keep: z.array(peer).min(1).max(8),
});
export type OwnedRange = z.infer<typeof ownedRange>;

/** The ranges cover the model. */
export const meetingOwnersSchema = z.object({
  ranges: z.array(ownedRange).min(1).max(65_536),
  /** Which checkpoint whoever has nothing reads. */
  checkpoint: count.optional(),
  /** Of the run's state: what a donor owns that is in no plan lasts as long. It is told under `NO_EPOCH`. */
  generation: count.optional(),
  /** What comes of the meeting is saved: keepers of these groups, places among `groups`, are sent all of it. */
  savedBy: z.array(count).min(1).max(8).optional(),
});
export type MeetingOwners = z.infer<typeof meetingOwnersSchema>;
