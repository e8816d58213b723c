/**
 * What the coordinator knows: all that `step(state, event, now) → [state, effects]` (step.ts) remembers between two events.
 * Plain data: JSON and back is the same state. Here are the types, the first state, and the questions anyone may ask of a
 * state. Rules CO in SPEC.md.
 */
import { invariant, type PeerId, type Range } from '../base.ts';
import type { CopyWord } from '../messages/checkpointWords.ts';
import type { EvaluatedMessage, LastCommit, ReportMessage, ResumedMessage } from '../messages/messages.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import type { Filling } from '../plan/lateCopies.ts';
import type { LedgerEntry } from '../plan/ledger.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { LossScale } from '../precision.ts';
import type { Audits } from './audits.ts';
import type { Pace, Seen } from './deadlines.ts';
import type {
  CoordinatorConfig,
  Earned,
  Held,
  IslandTurn,
  KeptPlan,
  Pair,
  PlanAnswer,
  Predicted,
  Proposal,
  Question,
  RelayedSlice,
  RelaySeen,
  TimeUsed,
} from './events.ts';
import type { Attempts, Doubt, Fault, MemberProgress, Sighting } from './trouble.ts';
import { type Newcomer, nextMayComeMs, type Visits } from './visits.ts';

export interface Donor {
  readonly peer: PeerId;
  readonly adapter: AdapterProfile;
  readonly memoryBytes: number | null;
  /** Main memory that it gives; absent: none. */
  readonly hostBytes?: number;
  /** pausing, leaving: its button was pressed, and a plan still needs it until the next checkpoint is stored. */
  readonly wish: 'compute' | 'pausing' | 'leaving' | 'paused';
  /** Its tokens that stand committed. */
  readonly tokens: number;
  /** An opaque name of its network. */
  readonly address: string;
  /** This server opened it itself. */
  readonly isOwn: boolean;
  /** It was not warm in time for the last plan that it was asked to get ready for. */
  readonly wasLate: boolean;
  /** No plan has it before; null: any may. */
  readonly asideUntilMs: number | null;
  /** How often it had to rest. */
  readonly rests: number;
  /** Null: it was there before others were at work, or this server opened it. */
  readonly newcomer: Newcomer | null;
  /** No plan of this group has it: at a meeting it is decided in which group it is to be. */
  readonly isApart?: true;
}

/** What a step of a plan needs of one member. */
export interface Duties {
  readonly peer: PeerId;
  /** Ids of the micro-batches whose loss it sees, in order. */
  readonly losses: readonly number[];
  /** Keys of the shards it is primary of, and replica of. */
  readonly primary: readonly string[];
  readonly replica: readonly string[];
  /** Of these the shards that have a replica, with their slices: of each of them a digest is wanted. */
  readonly replicated: Readonly<Record<string, number>>;
  /** Slices that it sends of other shards that have a replica. */
  readonly sends: number;
  /** Under a plan that is audited: so many tensors it commits to. Absent: none. */
  readonly commits?: number;
}

/** A replica that is not known to have what its primary has. */
export interface Lacking {
  /** By `keeperKey`. */
  readonly keeper: string;
  /**
   * Committed steps that it may still report, under this epoch, with its primary's digests. None: it missed a step, or got
   * other slices, and has that shard no more.
   */
  readonly owes: readonly { readonly step: number; readonly digests: readonly string[] | null }[];
}

/** A plan in force. A later epoch of the same plan (a step done again with the state kept) is the same plan in force. */
export interface PlanInForce extends Pace {
  readonly plan: Plan;
  readonly epoch: number;
  /** Everyone the plan names, with what the step needs of them; in the plan's order. */
  readonly duties: readonly Duties[];
  readonly predicted: Predicted | null;
  readonly lacking: readonly Lacking[];
  /** Null: nobody waits for a copy. */
  readonly filling: Filling | null;
  /** The server sees what these send each other. */
  readonly watched: readonly Pair[];
  /** Its members may lack values that others sent them after the last step: only what keepers have counts in a hand-over. */
  readonly keptOnly: boolean;
  /** Its members look at every tensor that they get and make, and say which was the first that is not sound. */
  readonly isChecked: boolean;
  /** Tensor bytes that a step sends from donor to donor. */
  readonly trafficBytes: number;
}

/**
 * Where the members of a new plan get the state: the newest checkpoint, what they kept, or those members of an earlier plan
 * who are still there.
 */
export type Source =
  | { readonly from: 'checkpoint'; readonly step: number }
  | { readonly from: 'kept' }
  | { readonly from: 'peers'; readonly inForce: PlanInForce };

export interface Preparing extends Watched {
  readonly name: 'preparing';
  readonly source: Source;
  readonly waitingFor: readonly PeerId[];
  readonly deadline: number;
  /** Its members got ready before: only the state moves. */
  readonly isWarm: boolean;
}

/** The plan that takes over next: its members get ready while the one in force trains on. */
export interface WarmingUp {
  readonly number: number;
  readonly plan: Plan;
  readonly waitingFor: readonly PeerId[];
  readonly startedAt: number;
  readonly deadline: number;
}

interface Reported {
  readonly peer: PeerId;
  readonly report: ReportMessage;
  /** That came with it. */
  readonly chance?: number;
}

/** What members say by heartbeats, where something takes long, and when that is looked at. */
export interface Watched {
  readonly inForce: PlanInForce;
  readonly progress: readonly MemberProgress[];
  readonly startedAt: number;
  readonly lookAt: number;
  /** What went through the server, and since when that has not moved; null: nobody has asked. */
  readonly seen: (RelaySeen & { readonly sinceMs: number }) | null;
}

export interface Training extends Watched {
  readonly name: 'training';
  readonly step: number;
  readonly reports: readonly Reported[];
  /** How long it took until all had reported without whom there is no commit; null: not all have. */
  readonly reportedMs: number | null;
  /** How long it took until half of these had; null: fewer have. */
  readonly halfReportedMs: number | null;
  readonly deadline: number;
}

export interface Evaluating extends Watched {
  readonly name: 'evaluating';
  /** From the peers of the last stage; an evaluation may have more micro-batches than a step. */
  readonly answers: readonly { readonly peer: PeerId; readonly evaluated: EvaluatedMessage }[];
  readonly deadline: number;
}

/** The run stands at a step boundary until the checkpoint of `committedSteps` is whole. */
export interface Saving extends Watched {
  readonly name: 'saving';
  readonly deadline: number;
}

/** At a boundary, ready for the next step, which waits. */
type Holding =
  /**
   * newcomer: until a donor that is about to come is here: the last step is to be its own too. groups: until all groups have
   * come as far, to their meeting or with what they save of it. audits: all is done, until the last ones are over.
   */
  | { readonly name: 'holding'; readonly inForce: PlanInForce; readonly awaits: 'newcomer' | 'groups' | 'audits' }
  | AwaitingCheckpoint;

/** Until a checkpoint on its way is whole: so much at most may be lost. */
export interface AwaitingCheckpoint extends Watched {
  readonly name: 'holding';
  readonly awaits: 'checkpoint';
  readonly deadline: number;
}

/** Whose the next plan is. */
export type Among = readonly PeerId[] | 'everyone';

/** No plan is in force, and one was asked for. */
interface Planning {
  readonly name: 'planning';
  /** Its members have the state, and hand it over; null: it comes from the newest checkpoint. */
  readonly before: PlanInForce | null;
  readonly reason: string;
  /** Who had a part in the plan that cannot go on: the next one is theirs. everyone: they can make none, or there was none. */
  readonly among: Among;
}

/** The server is back from its store, and its donors may still have what is committed beyond the newest checkpoint. */
export interface Returning {
  readonly name: 'returning';
  /** In the order of their epochs. */
  readonly plans: readonly KeptPlan[];
  /** Of the plan that did the last committed step. */
  readonly stale: readonly string[];
  /** What those say who are back. */
  readonly back: readonly { readonly peer: PeerId; readonly said: ResumedMessage }[];
  /** What those earned who may come back. */
  readonly credit: readonly LedgerEntry[];
  /** Since the first donor is here; null: none is. */
  readonly since: number | null;
  readonly deadline: number | null;
  /** One came who was here before: the server was away for minutes at most, and the others' tabs still try. */
  readonly wasShort?: true;
}

/** What a run waits for that has no plan. */
export type Lack =
  | { readonly of: 'firstDonor' | 'donor' }
  /** Those that are expected. */
  | { readonly of: 'donors'; readonly here: number; readonly expected: number }
  /** None can be made for the donors at hand. */
  | { readonly of: 'plan'; readonly reason: string }
  /** No checkpoint loads. */
  | { readonly of: 'state'; readonly reason: string }
  /** All is done, and the last audits are under way. */
  | { readonly of: 'audits' }
  /**
   * This group of several is over, and what comes next is decided for all of them. over: once all are. lost, noPlan: now, as
   * its state is lost, or no plan can be made for its donors.
   */
  | { readonly of: 'groups'; readonly reason: string; readonly why: 'over' | 'lost' | 'noPlan' };

/** A phase holds only what it needs. */
type Phase =
  | Holding
  | Planning
  | Returning
  | { readonly name: 'waiting'; readonly lack: Lack }
  | Preparing
  | Training
  | Evaluating
  | Saving
  | { readonly name: 'paused' }
  | { readonly name: 'finished' }
  /** What comes out is not finite, whoever computes it: it stands until the operator goes on, and its members keep the state. */
  | { readonly name: 'diverged'; readonly sentence: string; readonly before: PlanInForce }
  | { readonly name: 'stopped' };

/** What a keeper has of a shard at the step of a checkpoint, against what another one of its keepers uploaded. */
export interface ExpectedCopy {
  /** By `shardKey`. */
  readonly key: string;
  readonly primary: PeerId;
  readonly uploader: PeerId;
  readonly keeper: PeerId;
  readonly said: CopyWord | null;
  /** comparing: the server is adding up what was uploaded. */
  readonly verdict: 'open' | 'comparing' | 'same' | 'differs';
}

/** A checkpoint that was asked for and is not whole yet. */
export interface PendingCheckpoint {
  /** Committed steps in it. */
  readonly step: number;
  readonly epoch: number;
  readonly plan: Plan;
  readonly lossScale: LossScale | null;
  /** By `shardKey`. */
  readonly hashes: Readonly<Record<string, string>>;
  /** Uploaders of the plan in whose place the primaries upload: their copies were not known to be current. */
  readonly excused: readonly PeerId[];
  /** Of keepers whose state was current then. */
  readonly copies: readonly ExpectedCopy[];
  readonly askedAt: number;
  /** How long its newest part took; null: none is in. */
  readonly tookMs: number | null;
  /** With several groups: all of it that is this one's is whole, and the others' is waited for. */
  readonly isOwnWhole?: true;
}

/** The newest question to whoever makes plans, and what came of it. */
interface Ask extends Question {
  readonly number: number;
  readonly answer: PlanAnswer | null;
}

/**
 * The expected donors. open: they are waited for. whole: they came, and every one has to compute. over: one of them is
 * gone, or none was expected: a plan uses whom it can.
 */
type Gathering = 'open' | 'whole' | 'over';

export interface CoordinatorState {
  readonly config: CoordinatorConfig;
  readonly generation: number;
  readonly epoch: number;
  /** Of one of several groups: its own newest one's count and one more, or that of the meeting after it. */
  readonly committedSteps: number;
  /** Where there are several groups: the steps committed at their last meeting. */
  readonly met: number;
  /** Null: which steps are whose follows from the run file. */
  readonly turn: IslandTurn | null;
  /**
   * Of a meeting that is held beside this round's steps: it is under way, or its donors are told at the next boundary that it
   * is over. Null: none is.
   */
  readonly outcome: 'awaited' | { readonly round: number } | null;
  /** What they met with is saved before any of them goes on; elsewhere: by another group. */
  readonly isSavedFirst: boolean | 'elsewhere';
  /** Null: there is none, or the run went back since. */
  readonly lastCommit: LastCommit | null;
  /** When this server committed a step last. */
  readonly committedMs: number | null;
  readonly newestCheckpointStep: number;
  readonly evaluatedSteps: number | null;
  readonly loss: number | null;
  readonly evaluationLoss: number | null;
  readonly operator: 'run' | 'pause' | 'stop';
  readonly gathering: Gathering;
  readonly held: Held;
  /** It takes over when those whom it names are warm, at the next boundary. */
  readonly proposal: Proposal | null;
  readonly warmingUp: WarmingUp | null;
  /** Null: no plan is wanted. */
  readonly ask: Ask | null;
  /** Numbers of all questions so far. */
  readonly asks: number;
  /** Numbers of all plans so far that donors got ready for. */
  readonly warmUps: number;
  /** Donors are going: who is left is known when this is over. */
  readonly departures: { readonly sinceMs: number; readonly untilMs: number } | null;
  /** Of newcomers who did not stay. */
  readonly visits: Visits;
  /** In the order of joining. */
  readonly donors: readonly Donor[];
  readonly phase: Phase;
  readonly pending: readonly PendingCheckpoint[];
  readonly attempts: Attempts;
  /** How long things took. */
  readonly seen: Seen;
  /** Of the newest steps (`FAULTS_KEPT_STEPS`), by donors who are still here. */
  readonly faults: readonly Fault[];
  /** Between these tensors go through the server. */
  readonly relayed: readonly Pair[];
  /** In the epoch in progress, first seen first. */
  readonly sightings: readonly Sighting[];
  /** Slices of the newest steps that went through the server in the epoch in progress. */
  readonly relayedSlices: readonly RelayedSlice[];
  readonly doubt: Doubt | null;
  /** Null where the run does not ask for f16. */
  readonly lossScale: LossScale | null;
  /** In the newest checkpoint: a roll-back goes back to it. */
  readonly savedLossScale: LossScale | null;
  readonly budget: TimeUsed | null;
  /** The last committed steps, newest last: for the pages' tokens a second. */
  readonly newestSteps: readonly { readonly tokens: number; readonly seconds: number }[];
  /** What was earned since the newest checkpoint, by step: a roll-back takes it back. */
  readonly unsaved: readonly Earned[];
  /** Absent: nothing is audited. */
  readonly audits?: Audits;
}

/** Before the gathering is over. */
export function expectedDonors({ config }: CoordinatorState): number {
  invariant(config.expectedDonors !== null, 'donors are gathered where some are expected');
  return config.expectedDonors;
}

/** When the shell has to send `deadlineReached`, or null. */
export function nextDeadline(state: CoordinatorState): number | null {
  const { phase, warmingUp, donors, departures, visits, audits } = state;
  let next = ('deadline' in phase ? phase.deadline : null) ?? Number.POSITIVE_INFINITY;
  if ('lookAt' in phase) next = Math.min(next, phase.lookAt);
  if (departures !== null) next = Math.min(next, departures.untilMs);
  for (const { deadline } of audits?.pending ?? []) next = Math.min(next, deadline);
  if (warmingUp !== null && warmingUp.waitingFor.length > 0) next = Math.min(next, warmingUp.deadline);
  for (const { asideUntilMs } of donors) if (asideUntilMs !== null) next = Math.min(next, asideUntilMs);
  if (mayLetIn(state) && donors.some(({ newcomer }) => newcomer?.waits)) next = Math.min(next, nextMayComeMs(visits));
  return Number.isFinite(next) ? next : null;
}

/** Its donors are at work, no other newcomer is on its way into a plan, and a step was committed with those whom the plan has. */
export function mayLetIn(state: CoordinatorState): boolean {
  const { operator, phase, proposal, warmingUp, ask, donors, lastCommit } = state;
  if (operator !== 'run' || !('inForce' in phase) || phase.name === 'preparing') return false;
  if (lastCommit?.epoch !== phase.inForce.epoch) return false;
  if (warmingUp !== null || ask?.answer === null) return false;
  return proposal === null || peers(proposal.plan).some((peer) => !donors.some((donor) => donor.peer === peer));
}

/** B·T: how many targets a step has at most. */
export const stepTargets = ({ batch }: Pick<CoordinatorConfig, 'batch'>): number => batch.samples * batch.sequence;

/** The plan in force, where there is one. */
export const planInForce = ({ phase }: CoordinatorState): PlanInForce | null =>
  'inForce' in phase ? phase.inForce : null;

export const membersOf = ({ duties }: PlanInForce): PeerId[] => duties.map(({ peer }) => peer);

export const dutiesIn = ({ duties }: PlanInForce, peer: PeerId): Duties | undefined =>
  duties.find((one) => one.peer === peer);

/** The plan that is asked for begins from the newest checkpoint: nobody has anything to lose. */
export const isPlanningAnew = ({ phase }: CoordinatorState): boolean =>
  phase.name === 'planning' && phase.before === null;

export const keeperKey = (peer: PeerId, shard: string): string => `${peer} ${shard}`;
export const shardKey = (block: string, range: Range): string => `${block}/${range[0]}-${range[1]}`;
