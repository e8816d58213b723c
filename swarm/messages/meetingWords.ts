/**
 * Where what all islands share lies with owners: who has which range of it at a meeting, and who has it from then on. Rules IS
 * in SPEC.md.
 */
import { z } from 'zod';
import { block, count, digest, peer, range } from '../fields.ts';

/** A donor that is in no plan, and owns something, is told of meetings under this one. */
export const NO_EPOCH = 0;

/** An attempt at a meeting. */
export const howItIsHeld = {
  /** With these the packets go through the server, because it says so. */
  relayed: z.array(peer).optional(),
  /** The attempt before had not ended in time: who waited for others says for whom. */
  wasLate: z.literal(true).optional(),
  /** Steps of the next round go on meanwhile. */
  beside: z.literal(true).optional(),
  /** The attempt before came to different things: all say what they hear of each other. */
  traced: z.literal(true).optional(),
};

/**
 * What islands said at a meeting of a range, as it came to one donor: a digest for each island, of what its packet of just this
 * range would be. Ranges are cut as what comes of the meeting is.
 */
const heardRange = z.object({
  ...{ block, range },
  islands: z.array(count.max(0xffff)).max(65_536),
  digests: z.array(digest).max(65_536),
});
export const heardSchema = z.array(heardRange).max(65_536);
/** Digests of one donor, some 30 bytes each. Who would have more to say of it says nothing. */
export const MOST_HEARD = 6_000;
export type HeardRange = z.infer<typeof heardRange>;

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
