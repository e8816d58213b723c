/**
 * What crosses between the coordinator and its shell: the run that it is given, the events that it hears, the effects
 * that it asks for. Nothing else does, so a server, a test with a virtual clock and a fuzzer are shells alike. Times
 * are milliseconds of whatever clock the shell has. Rules CO in SPEC.md.
 */
import type { PeerId, Range } from '../base.ts';
import type { Free } from '../islands/giving.ts';
import type { CopyWord } from '../messages/checkpointWords.ts';
import type { LastCommit, PeerMessage, ReportMessage, ServerMessage } from '../messages/messages.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import type { RefusalReason } from '../messages/refusals.ts';
import type { Adapter } from '../model/adapter.ts';
import type { BlockName } from '../model/model.ts';
import type { LedgerEntry } from '../plan/ledger.ts';
import type { Plan } from '../plan/plan.ts';
import type { Compute, LossScale } from '../precision.ts';
import type { Order } from '../run/data.ts';
import type { Train } from '../run/runFile.ts';
import type { RunWire } from '../wire.ts';
import type { FailedMeeting, OwnIslands } from './ownIslands.ts';

/** One run: plain data, as all that crosses here. */
export interface CoordinatorConfig extends OwnIslands {
  readonly name: string;
  /** Of the model. */
  readonly layers: number;
  /** Its config.json: what no loss and no traffic of a step can exceed follows from it. */
  readonly model: Readonly<Record<string, unknown>>;
  /** How the stream goes from peer to peer. */
  readonly wire: RunWire;
  /** B samples of T positions a step. */
  readonly batch: {
    readonly samples: number;
    readonly sequence: number;
    readonly optimizer?: 'muon';
    readonly adapter?: Adapter;
    /** Only the operator's own donors have the first and last stage; absent: anyone may. */
    readonly ends?: 'own';
  };
  /** The run is finished when this many steps stand committed: a meeting, with islands. */
  readonly steps: number;
  /** What a step's learning rate follows from, and whose it is. */
  readonly train: Pick<Train, 'steps' | 'budget' | 'optimizer' | 'schedule' | 'islands'>;
  readonly gradientClipNorm: number | null;
  /** What the run asks for; with f16 the gradients have a loss scale. Absent: f32. */
  readonly compute?: Compute;
  /** With islands whole rounds, as are those of the evaluation: both are at meetings only. */
  readonly checkpointEverySteps: number;
  /**
   * Held-out loss over `windows` windows of T positions, before step 0, after every so many steps and at the end. `counted`:
   * what it is a mean over: those of their rows that count, or their preference pairs; absent: all rows.
   */
  readonly evaluation: { readonly everySteps: number; readonly windows: number; readonly counted?: number } | null;
  /** Of a run on examples: how many rows of each window count, and in which order windows come. Absent: every row of a step. */
  readonly examples?: { readonly counted: readonly number[]; readonly order: Order };
  /** Of replicas that a change of plan makes anew so many bytes move before its first step, more beside steps; absent: 4 MiB. */
  readonly lateBytes?: number;
  /** The most donors that a plan can hold. */
  readonly capacity: number;
  /**
   * The share of items that are done again; bounded: by what steps move, as nobody said that share. Absent: nothing is.
   */
  readonly audit?: { readonly share: number; readonly isBounded: boolean };
  /** No step before this many donors are admitted, and no plan without one of them while all are there; null: whoever comes. */
  readonly expectedDonors: number | null;
}

export type Pair = readonly [PeerId, PeerId];

/** A slice of the gradient that went through the server, between two whom it watches. */
export interface RelayedSlice {
  readonly step: number;
  readonly from: PeerId;
  readonly to: PeerId;
  /** `sliceName`. */
  readonly slice: string;
  readonly digest: string;
  /** Sum of its squares; null: it is not a number that JSON can hold. */
  readonly squares: number | null;
}

/** What went through the server in an epoch, between those whom it watches. */
export interface RelaySeen {
  /** Tensors that went by whole, of the newest steps (`passageText`). */
  readonly whole: readonly string[];
  /** From the one to the other as much is on its way as may be, which the other's connection does not take. */
  readonly full: readonly Pair[];
  /** It grows with every frame that comes, or that somebody takes. */
  readonly moved: number;
}

/** Of a run that ends with its time. Null in a state: the run has a number of steps. */
export interface TimeUsed {
  /** By steps that are over. */
  readonly usedMs: number;
  /** By step, from the newest checkpoint on: the share at which it was given out. */
  readonly shares: Readonly<Record<number, number>>;
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
  readonly lastCommit: LastCommit | null;
  /** Of the last committed step; null: there is none. */
  readonly applied: Applied | null;
  /**
   * Plans of this generation under which donors may still have the state, in the order of their epochs: from that of the
   * last commit on. Where nothing is committed beyond the checkpoint nothing is lost without them.
   */
  readonly plans: readonly KeptPlan[];
  /** What those who have a part in them earned so far. */
  readonly credit: readonly LedgerEntry[];
  /** What was earned since the newest checkpoint. */
  readonly unsaved: readonly Earned[];
  /** Of several groups whose donors may come back with what they have. */
  readonly apart?: {
    /** Steps that stood at their last meeting. */
    readonly met: number;
    readonly groups: readonly GroupStart[];
  };
  /** What that checkpoint leaves to do, where rounds are recorded; absent: all. */
  readonly recorded?: Recorded;
  /** Of a run that ends with its time; absent: none of it is used. */
  readonly time?: TimeUsed;
}

/** One of several groups: its newest commit, and under which plans it may have what. None: it had no plan yet. */
export interface GroupStart extends Pick<StartState, 'committedSteps' | 'lastCommit' | 'applied' | 'plans'> {
  readonly own: readonly number[];
}

/** What is left of a run whose rounds are recorded, and which round and which island are the next ones. */
export interface Recorded {
  readonly free: Free;
  readonly round: number;
  readonly nextIsland: number;
}

/** A plan, and its epochs: each but the first did a step again, everyone keeping what it had. */
export interface KeptPlan {
  readonly epochs: readonly number[];
  readonly plan: Plan;
}

/** What is not the shell's own. */
export type DonorMessage = Exclude<
  PeerMessage,
  { type: 'hello' | 'measured' | 'limits' | 'signal' | 'probed' | 'answered' | 'unanswered' }
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
      /** Main memory that it gives; absent: none. */
      readonly hostBytes?: number;
      /** An opaque name of its network: two donors that have the same one may be one person. */
      readonly address: string;
      /** This server opened it itself. */
      readonly isOwn: boolean;
      /** At a meeting it is decided in which group it is to be; absent: it is in this one. */
      readonly isApart?: true;
      /** It proved that it was here before the server began; absent: it did not. */
      readonly wasHere?: true;
    }
  /** Its connection closed, or it was silent for too long. */
  | { readonly type: 'donorGone'; readonly peer: PeerId; readonly detail: string }
  /** `chance`: with a report, a whole number that nobody could know before; absent: nothing is audited. */
  | { readonly type: 'donorSaid'; readonly peer: PeerId; readonly message: DonorMessage; readonly chance?: number }
  | { readonly type: 'operatorSaid'; readonly command: OperatorCommand }
  /** Back to a kept checkpoint: by the operator, or as a newer one does not load. `earned`: each step from there on. */
  | {
      readonly type: 'sentBack';
      readonly toStep: number;
      readonly reason: string;
      /** In that checkpoint, as in `StartState`. */
      readonly lossScale: LossScale | null;
      readonly earned: readonly Earned[];
      /** As in `StartState`. */
      readonly recorded?: Recorded;
      readonly time?: TimeUsed;
    }
  /** No checkpoint loads. */
  | { readonly type: 'stateLost'; readonly reason: string }
  /** A donor is about to come: it is measured while the others stand still, then the last step waits for it. */
  | { readonly type: 'stepsHeld'; readonly held: Held }
  /** More of a checkpoint's shard came from this donor; told now and then. */
  | { readonly type: 'uploading'; readonly peer: PeerId }
  /**
   * All groups have met, and so many steps stand for all of them. A checkpoint of that is wanted now: while training goes
   * on, or before it does, here or of another group; or none is.
   */
  | {
      readonly type: 'met';
      readonly committedSteps: number;
      readonly saved: 'no' | 'beside' | 'first' | 'elsewhere';
      /** What the next round begins with, where rounds are recorded. */
      readonly turn?: IslandTurn;
      /** They have only begun to: what comes of it is told by `cameOf`. */
      readonly isBeside: boolean;
    }
  /** The meeting of this round, beside which training went on, is over. */
  | { readonly type: 'cameOf'; readonly round: number }
  /** This number is the group's to do: it stands ready for a step. */
  | { readonly type: 'given'; readonly number: number }
  /** What all groups have uploaded is one checkpoint. */
  | { readonly type: 'allSaved'; readonly step: number; readonly lossScale: LossScale | null }
  /** Several groups are one again: it has all their donors, and no plan. */
  | { readonly type: 'groupsEnded'; readonly reason: string }
  | FailedMeeting
  /** Expected donors that are not here by now are not waited for any more. */
  | { readonly type: 'gatheringEnded' }
  | ({ readonly type: 'sliceRelayed'; readonly epoch: number } & RelayedSlice)
  /** A frame went through the server that is not sound: told of each direction of a pair once an epoch. */
  | { readonly type: 'unsoundRelayed'; readonly epoch: number; readonly from: PeerId; readonly to: PeerId }
  /** What `relayAsked` asks for. */
  | ({ readonly type: 'relaySaw'; readonly epoch: number } & RelaySeen)
  /** What `compareCopy` came to. */
  | ({ readonly type: 'copyCompared'; readonly isNear: boolean } & Omit<
      CopyComparison,
      'islands' | 'uploadedHash' | 'copy'
    >)
  /** All that this donor owes of an audit has come. */
  | { readonly type: 'evidenceIn'; readonly audit: number; readonly peer: PeerId }
  /** What an audit came to. broken: what this peer uploaded is not what it had committed to. */
  | {
      readonly type: 'audited';
      readonly audit: number;
      readonly found:
        | { readonly result: 'agrees' }
        | ({ readonly result: 'differs'; readonly evidence: string } & Pick<AuditedItem, 'microBatch' | 'direction'>)
        | { readonly result: 'void'; readonly reason: string }
        | { readonly result: 'broken'; readonly peer: PeerId };
    }
  /** What `planWanted` with this number asked for; null: nobody asked, but the plan in force was looked at again. */
  | { readonly type: 'planned'; readonly ask: number | null; readonly answer: PlanAnswer }
  /** The time `nextDeadline` is here. An early tick does nothing. */
  | { readonly type: 'deadlineReached' };

/** Which steps do not start yet. */
export const HELD = ['none', 'lastStep', 'everyStep'] as const;
export type Held = (typeof HELD)[number];

/** A donor that a plan may use. */
export interface Offered {
  readonly peer: PeerId;
  /** The most GPU memory that it gives; null: what is needed. */
  readonly memoryBytes: number | null;
  /** Main memory that it gives; absent: none. */
  readonly hostBytes?: number;
  /** No plan may do without it. */
  readonly isNeeded: boolean;
}

/** Which plan is asked for. */
export interface Question {
  /** now: nothing is computed until it is there. departure: a member wants to go. arrival: one could be used who is in no stage. */
  readonly purpose: 'now' | 'departure' | 'arrival';
  /** In the order in which they joined. */
  readonly offer: readonly Offered[];
}

/** What a plan is taken to need, as far as it is known. */
export interface Predicted {
  /** A step. */
  readonly stepMs: number | null;
  /** The state, from the plan in force to this one; where none is, from the server's checkpoint. */
  readonly movingMs: number | null;
}

/** A plan worth changing to, and why. */
export interface Proposal {
  readonly plan: Plan;
  readonly reason: string;
  readonly predicted?: Predicted;
  /** What was asked for and these donors cannot have: the epoch's reason ends with it. */
  readonly instead?: string;
}
export type PlanAnswer =
  /** `reason`: why the plan in force should give way to it; where a plan had to be made anyway nobody reads it. */
  | ({ readonly answer: 'plan' } & Proposal)
  /** The plan in force is as good as any for the donors at hand. */
  | { readonly answer: 'stays' }
  /** No plan can be made for these donors: one sentence. */
  | { readonly answer: 'none'; readonly reason: string };

/** What a group does in a round that is recorded: one island, with the numbers that it was given so far, in order. */
export interface IslandTurn {
  readonly round: number;
  /** Updates of the island before this round. */
  readonly time: number;
  readonly numbers: readonly number[];
}

/** Of a step whose round is recorded: which it was. */
interface RecordedTurn {
  readonly number: number;
  readonly island: number;
  readonly round: number;
  readonly innerStep: number;
}

/** One line of the metrics file (docs/commands.md) but for `evaluationLoss`. */
export interface CommitRecord extends Partial<RecordedTurn> {
  /** Where rounds go on beside meetings: of how many of these the island's values had what came of them. */
  readonly tookIn?: number;
  /** Of the run's time, used when the step was given out. */
  readonly share?: number;
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

/** What a committed step's update is done with, and what holds after it. */
export interface Applied {
  readonly clipScale: number;
  /** The next step begins with it; null where the run does not ask for f16. */
  readonly lossScale: LossScale | null;
  /** Replicas that have their shards no more, as in `PlanInForce`. */
  readonly stale: readonly string[];
}

export interface CopyComparison {
  /** Of the group that has it, where there are several; absent: all. */
  readonly islands?: readonly number[];
  /** Of the checkpoint. */
  readonly epoch: number;
  readonly step: number;
  /** By `shardKey`. */
  readonly key: string;
  readonly keeper: PeerId;
  readonly uploadedHash: string;
  readonly copy: CopyWord;
}

export interface StoredShard {
  readonly block: BlockName;
  readonly range: Range;
  readonly hash: string;
  /** Of the group that saved it, where there are several; absent: all. */
  readonly islands?: readonly number[];
}

/** What an audit looks at: one micro-batch's way through a stage. */
interface AuditedItem {
  readonly step: number;
  readonly stage: number;
  /** Null: it is of all, in the gradient sums. */
  readonly microBatch: number | null;
  readonly direction: 'F' | 'B';
}

export interface Conviction {
  readonly peer: PeerId;
  /** The step then being done. */
  readonly atStep: number;
  readonly item: AuditedItem;
  /** From this step on all is undone that the donor had a part in. */
  readonly firstStep: number;
  /** One sentence. */
  readonly evidence: string;
}

/** Performed by the shell in order, each done before the next: what was answered is then always stored. */
export type Effect =
  | { readonly type: 'send'; readonly to: PeerId; readonly message: ServerMessage }
  | {
      readonly type: 'storeCommit';
      readonly record: CommitRecord;
      readonly ledger: readonly LedgerEntry[];
      readonly applied: Applied;
    }
  /** What went through the server in this epoch between those whom it watches is wanted: answered at once by `relaySaw`. */
  | { readonly type: 'relayAsked'; readonly epoch: number }
  /** What was uploaded of a shard is held against what another keeper has, which is not the same bit for bit. */
  | ({ readonly type: 'compareCopy' } & CopyComparison)
  | { readonly type: 'storeEvaluation'; readonly committedSteps: number; readonly loss: number }
  /** The newest checkpoint from now on: `step` steps are in it; every shard of the plan, in the plan's order. */
  | {
      readonly type: 'storeCheckpoint';
      readonly step: number;
      readonly generation: number;
      readonly shards: readonly StoredShard[];
      /** What the step after it begins with; null where the run does not ask for f16. */
      readonly lossScale: LossScale | null;
      /** An audit may undo steps from here on; absent: none can. */
      readonly undoableFrom?: number;
    }
  /** Commits and ledger of steps ≥ `toStep`, and evaluations of more than `toStep` steps, never happened. */
  | { readonly type: 'rollBack'; readonly toStep: number; readonly atStep: number; readonly reason: string }
  | {
      readonly type: 'storeEpoch';
      readonly epoch: number;
      readonly generation: number;
      readonly plan: Plan;
      readonly reason: string;
      /** Between these tensors go through the server, which looks at them. */
      readonly relayed: readonly Pair[];
    }
  /**
   * A plan should be made; steps go on meanwhile where there are any. Each is answered once by `planned`, but for one that a
   * newer one has replaced: then the answer may stay away. `inForce`: whose keepers have the state, where any have.
   */
  | ({ readonly type: 'planWanted'; readonly ask: number; readonly inForce: Plan | null } & Question)
  /** Who may be planned for is another, by no word of theirs. */
  | { readonly type: 'offerChanged'; readonly reason: string }
  /** The operator's wish that must survive a restart. */
  | { readonly type: 'storePaused'; readonly paused: boolean }
  /** Say `refused` and close the connection. The coordinator has forgotten this donor already. */
  | {
      readonly type: 'refuse';
      readonly peer: PeerId;
      /** The step then being done. */
      readonly atStep: number;
      readonly reason: RefusalReason;
      readonly detail: string;
      /** It was shown to harm the run, by others' word or by what the server saw. */
      readonly isProven?: true;
    }
  /** `snapshot(state, now)` would show something new. At most one, the last effect of an event. */
  | { readonly type: 'publish' }
  | { readonly type: 'finished' }
  /**
   * What a member did in a step is to be done again, out of the evidence that donors are about to upload: answered by
   * `evidenceIn` of each, then by `audited`. Answers that come after it is given up are passed over.
   */
  | {
      readonly type: 'audit';
      readonly audit: number;
      readonly epoch: number;
      readonly step: number;
      /** The step's: whose samples it had. */
      readonly number: number;
      readonly stage: number;
      readonly peer: PeerId;
      /** Of each piece, in the order of `evidenceOf`, what both ends said of it; null: one alone has it. */
      readonly digests: readonly (string | null)[];
      /** As the member reported them. */
      readonly losses: ReportMessage['losses'];
      /** The member's adapter is of a kind whose honest differences are known. */
      readonly isMeasured: boolean;
      /** Rows of the step that count, or its preference pairs. */
      readonly counted: number;
    }
  /** Its credit is void, and the run is to be sent back to the newest checkpoint at or before `firstStep`. */
  | ({ readonly type: 'convicted' } & Conviction)
  /** After `stop`: no step is in progress, and what is committed is saved. */
  | { readonly type: 'stopped' }
  | { readonly type: 'log'; readonly level: 'info' | 'warn'; readonly text: string };
