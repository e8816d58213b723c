/** What goes wrong at a step, as far as it is remembered until it is over. */
import type { PeerId } from '../base.ts';
import type { StepProgress } from '../messages/messages.ts';

/** Attempts at the same step since the last commit: what is forgiven once or twice, but not for ever. */
export interface Attempts {
  /** Deadlines that everybody missed: each doubles the next one. */
  readonly stalls: number;
  /** Who missed its last deadline, while others met it. */
  readonly late: readonly PeerId[];
}
export const NO_ATTEMPTS: Attempts = { stalls: 0, late: [] };

/**
 * What went wrong at a step, by donors' words or their silence: with one's own part or its copies, with a hand-over of its
 * state, what one says that it sent the other, or what two have of a shard.
 */
export interface Fault {
  readonly of: 'itself' | 'copies' | 'handOver' | 'slices' | 'state';
  readonly peer: PeerId;
  /** Null where it is the one's alone. */
  readonly about: PeerId | null;
  readonly step: number;
  /** Of the one and the other; null: there was none, or it was gone. */
  readonly networks: readonly (string | null)[];
}

/** A step, or the evaluation after so many, came out as no finite number: it is done without each of its members, one after another. */
export interface Doubt {
  readonly of: 'step' | 'evaluation';
  readonly step: number;
  /** Without whom it is done now; null: it takes part again, as there is no plan without it. */
  readonly suspect: PeerId | null;
  /** Without whom it was done, or could not be. */
  readonly tried: readonly PeerId[];
}

/** A frame that went through the server and was not sound. */
export interface Sighting {
  readonly from: PeerId;
  readonly to: PeerId;
}

/** What a member said last, by its heartbeats: of the step in progress, or of the one before. */
export interface MemberProgress {
  readonly peer: PeerId;
  readonly at: StepProgress;
  /** Since when it says so. */
  readonly sinceMs: number;
}
