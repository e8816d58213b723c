import type { PeerId } from '../base.ts';

/** What a group of donors has of a run with islands. */
export interface OwnIslands {
  /** The islands of these donors, where other groups compute the others (groups.ts); absent: all. */
  readonly own?: readonly number[];
  /** What all islands share lies with owners, and not with every keeper. */
  readonly owned?: true;
}

/** A meeting of all groups came to nothing by these of this group: it goes on without them. */
export interface FailedMeeting {
  readonly type: 'failedMeeting';
  readonly peers: readonly PeerId[];
  /** They did not meet in time; else what they said is at odds with others' words. */
  readonly areLate: boolean;
  readonly reason: string;
}
