/** What is known, between two meetings, of the owners of what islands share (owners.ts). */
import type { PeerId, Range } from '../base.ts';
import type { MeetingOwners } from '../messages/meetingWords.ts';

/** Of a donor that has no part in a plan: it is told of meetings by itself. */
export const NO_ISLAND = -1;

/** Who has which range since the last meeting. */
export interface Owners {
  /** Nobody has anything yet: it lies in this checkpoint, with which all began. */
  readonly checkpoint: number | null;
  readonly ranges: readonly { readonly block: string; readonly range: Range; readonly peers: readonly PeerId[] }[];
  /**
   * The donors among whom it was shared out, each with its island, or none (`NO_ISLAND`): whoever was of another one may not
   * have heard what came of the meeting.
   */
  readonly among: readonly (readonly [peer: PeerId, island: number])[];
}

/** What those who meet are told of owners, and how long that should take them at most, in ms. */
export interface OwnersTold {
  readonly owners: MeetingOwners;
  readonly allowedMs: number;
}
