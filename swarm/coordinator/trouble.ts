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
 * What went wrong at a step, by donors' words or their silence: with one's own part or its copies, with a hand-over of
 * its state, the link of two, what one says that it sent the other, what two have of a shard, or for whom one says that it waits.
 */
export interface Fault {
  readonly of: 'itself' | 'copies' | 'handOver' | 'link' | 'slices' | 'state' | 'wait';
  readonly peer: PeerId;
  /** Null where it is the one's alone. */
  readonly about: PeerId | null;
  readonly step: number;
}

/** What came out of a step, or of the evaluation after so many, is not believed: it is done once more, by others where there are any. */
export interface Doubt {
  readonly of: 'step' | 'evaluation';
  readonly step: number;
  /** Null: it was not finite. An evaluation has no norm: 0. */
  readonly came: { readonly loss: number; readonly gradientNorm: number } | null;
  /** Others take its place until the outcome is there again; null: there is nobody else. */
  readonly suspect: PeerId | null;
  /** Outcomes of it that were not believed. */
  readonly times: number;
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
