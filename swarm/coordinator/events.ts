/**
 * What crosses between the coordinator and its shell: the run that it is given, the events that it hears, the effects that
 * it asks for. Its one idea: nothing else does, so a server, a test with a virtual clock and a fuzzer are shells alike.
 * Times are milliseconds of whatever clock the shell has. Rules CO in SPEC.md.
 */
import type { PeerId, Range, Result } from '../base.ts';
import type { PeerMessage, ServerMessage } from '../messages/messages.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import type { RefusalReason } from '../messages/refusals.ts';
import type { BlockName, Model } from '../model/model.ts';
import type { LedgerEntry } from '../plan/ledger.ts';
import type { Plan } from '../plan/plan.ts';
import type { MemoryCaps } from '../planner/fit.ts';
import type { Compute, LossScale } from '../precision.ts';

/** One run. Functions in it are pure. */
export interface CoordinatorConfig {
  readonly name: string;
  readonly model: Pick<Model, 'layers'>;
  /** B samples of T positions a step. */
  readonly batch: { readonly samples: number; readonly sequence: number };
  /** The run is finished when this many steps stand committed. */
  readonly steps: number;
  readonly learningRate: (step: number) => number;
  readonly gradientClipNorm: number | null;
  /** What the run asks for; with f16 the gradients have a loss scale. Absent: f32. */
  readonly compute?: Compute;
  readonly checkpointEverySteps: number;
  /** Held-out loss over `windows` windows of T positions, before step 0, after every so many steps and at the end. */
  readonly evaluation: { readonly everySteps: number; readonly windows: number } | null;
  /**
   * Peers in the order they joined, and the bytes that some of them give at most. Where it refuses, fewer are tried. With
   * `awaitsProposals` it answers for what is known of the peers when it is asked.
   */
  readonly makePlan: (peers: readonly PeerId[], caps: MemoryCaps) => Result<Plan>;
  /** The most donors a plan can hold; the layers of the model, for now. */
  readonly capacity: number;
  /** Plans are judged elsewhere: a change of plan that nothing forces waits for a `planProposed`, newcomers too. */
  readonly awaitsProposals: boolean;
  /** No step before this many donors are admitted, and no plan without one of them while all are there; null: whoever comes. */
  readonly expectedDonors: number | null;
}

/** What the store knows of the run when the server starts. */
export interface StartState {
  readonly generation: number;
  /** The highest epoch ever used; 0 for a new run. */
  readonly epoch: number;
  readonly committedSteps: number;
  /** Steps committed before the newest whole checkpoint; the initial state is checkpoint 0. */
  readonly newestCheckpointStep: number;
  /** In that checkpoint; null: in none (the initial state's, or a run without one). */
  readonly savedLossScale: LossScale | null;
  readonly operatorPaused: boolean;
  /** Committed steps of the newest stored evaluation, and its loss. */
  readonly evaluatedSteps: number | null;
  readonly evaluationLoss: number | null;
  /** Loss of the last committed step. */
  readonly loss: number | null;
}

/** What is not the shell's own. */
export type DonorMessage = Exclude<
  PeerMessage,
  { type: 'hello' | 'measured' | 'limits' | 'heartbeat' | 'signal' | 'probed' }
>;

export type OperatorCommand = 'start' | 'pause' | 'resume' | 'stop';

/** What a committed step earned its donors. */
export interface Earned {
  readonly step: number;
  readonly ledger: readonly LedgerEntry[];
}

export type CoordinatorEvent =
  /** A donor was admitted: it has its `welcome`, and its GPU passed the check. */
  | {
      readonly type: 'donorJoined';
      readonly peer: PeerId;
      readonly adapter: AdapterProfile;
      /** The most GPU memory that it gives; absent: what is needed. */
      readonly memoryBytes?: number;
    }
  /** Its connection closed, or it was silent for too long. */
  | { readonly type: 'donorGone'; readonly peer: PeerId; readonly detail: string }
  | { readonly type: 'donorSaid'; readonly peer: PeerId; readonly message: DonorMessage }
  | { readonly type: 'operatorSaid'; readonly command: OperatorCommand }
  /** The operator sent the run back to a checkpoint that is kept; `earned`: every step from there on, with its ledger. */
  | {
      readonly type: 'sentBack';
      readonly toStep: number;
      /** In that checkpoint, as in `StartState`. */
      readonly lossScale: LossScale | null;
      readonly earned: readonly Earned[];
    }
  /** A donor is about to come: it is measured while the others stand still, then the last step waits for it. */
  | { readonly type: 'stepsHeld'; readonly held: Held }
  /** Expected donors that are not here by now are not waited for any more. */
  | { readonly type: 'gatheringEnded' }
  /** The plan in force should give way to this one; null: it was judged for the donors at hand, and stays. */
  | { readonly type: 'planProposed'; readonly proposal: Proposal | null }
  /** The time `nextDeadline` is here. An early tick does nothing. */
  | { readonly type: 'deadlineReached' };

/** Which steps do not start yet. */
export const HELD = ['none', 'lastStep', 'everyStep'] as const;
export type Held = (typeof HELD)[number];

/** A plan worth changing to, and why. */
export interface Proposal {
  readonly plan: Plan;
  readonly reason: string;
}

/** One line of the metrics (CONTRACT §3) but for `evaluationLoss`. */
export interface CommitRecord {
  readonly step: number;
  readonly loss: number;
  readonly gradientNorm: number;
  readonly learningRate: number;
  readonly tokens: number;
  readonly seconds: number;
  readonly donors: number;
  readonly stages: number;
  readonly microBatches: number;
  /** The plan's epoch. */
  readonly plan: number;
  readonly bytesDirect: number;
  readonly bytesRelayed: number;
}

export interface StoredShard {
  readonly block: BlockName;
  readonly range: Range;
  readonly hash: string;
}

/** Performed by the shell in order, each done before the next: what was answered is then always stored. */
export type Effect =
  | { readonly type: 'send'; readonly to: PeerId; readonly message: ServerMessage }
  | { readonly type: 'storeCommit'; readonly record: CommitRecord; readonly ledger: readonly LedgerEntry[] }
  | { readonly type: 'storeEvaluation'; readonly committedSteps: number; readonly loss: number }
  /** The newest checkpoint from now on: `step` steps are in it; every shard of the plan, in the plan's order. */
  | {
      readonly type: 'storeCheckpoint';
      readonly step: number;
      readonly generation: number;
      readonly shards: readonly StoredShard[];
      /** What the step after it begins with; null where the run does not ask for f16. */
      readonly lossScale: LossScale | null;
    }
  /** Commits and ledger of steps ≥ `toStep`, and evaluations of more than `toStep` steps, never happened. */
  | { readonly type: 'rollBack'; readonly toStep: number; readonly atStep: number; readonly reason: string }
  | {
      readonly type: 'storeEpoch';
      readonly epoch: number;
      readonly generation: number;
      readonly plan: Plan;
      readonly reason: string;
    }
  /** The operator's wish that must survive a restart. */
  | { readonly type: 'storePaused'; readonly paused: boolean }
  /** Say `refused` and close the connection. The coordinator has forgotten this donor already. */
  | { readonly type: 'refuse'; readonly peer: PeerId; readonly reason: RefusalReason; readonly detail: string }
  /** `snapshot(state, now)` would show something new. At most one, the last effect of an event. */
  | { readonly type: 'publish' }
  | { readonly type: 'finished' }
  /** After `stop`: no step is in progress, and what is committed is saved. */
  | { readonly type: 'stopped' }
  | { readonly type: 'log'; readonly level: 'info' | 'warn'; readonly text: string };
