/** What crosses between whoever judges plans and the rest: its state, its events, its effects. All plain data. */
import type { PeerId, Result } from '../base.ts';
import type { Effect, PlanAnswer } from '../coordinator/events.ts';
import type { PeerMessage } from '../messages/messages.ts';
import type { Snapshot } from '../messages/snapshot.ts';
import type { Plan } from '../plan/plan.ts';
import type { ClusterPlan } from '../planner/clusterPlan.ts';
import type { Reason } from '../planner/reason.ts';
import type { Admitted, KnownDonor, PlanningConfig, SearchProblem } from './knownDonors.ts';
import type { Sampling } from './linkSample.ts';
import type { Pace } from './pace.ts';
import type { PeerProfile } from './peerProfile.ts';
import type { Standing, Suspicion, Trial } from './standing.ts';

/** The run as the coordinator has it. */
export interface RunView {
  /** Donors that a plan may use, in the order they joined. */
  readonly offer: readonly PeerId[];
  /** In force; null: none is. */
  readonly plan: Plan | null;
  readonly epoch: number;
}

type PlanWanted = Extract<Effect, { type: 'planWanted' }>;

/** What a search came to. */
export type FoundPlan = Pick<ClusterPlan, 'plan' | 'reasons' | 'idle'>;
export type Found = Result<FoundPlan>;

/** atOnce: nothing is computed until it is there. atLength: beside the training. */
export type SearchBudget = 'atOnce' | 'atLength';

export type ReplannerEvent =
  | ({ readonly type: 'donorJoined' } & Admitted)
  | { readonly type: 'donorGone'; readonly peer: PeerId }
  | { readonly type: 'donorSaid'; readonly peer: PeerId; readonly message: PeerMessage }
  /** The coordinator's, for the replanner to answer. */
  | PlanWanted
  /** What the coordinator asked for is about to be done. */
  | { readonly type: 'doing'; readonly effect: Effect }
  | { readonly type: 'searched'; readonly search: number; readonly found: Found }
  | { readonly type: 'deadlineReached' }
  /** Everything else that came of an event is done. */
  | { readonly type: 'settled' };

export type ReplannerEffect =
  /** Answered by `searched` with this number; where a newer one replaces it nobody waits for it. */
  | {
      readonly type: 'search';
      readonly search: number;
      readonly problem: SearchProblem;
      readonly budget: SearchBudget;
    }
  /** To the coordinator. */
  | { readonly type: 'planned'; readonly ask: number | null; readonly answer: PlanAnswer }
  /** Its place in the queue; or to two who measure the link between them, which no plan uses. */
  | Extract<Effect, { type: 'send' }>
  /** The numbers behind the plan in force, to be kept. */
  | ({ readonly type: 'recordPlan'; readonly schedule: Plan['schedule'] } & Pick<
      PlanAppraisal,
      'epoch' | 'predictedSeconds' | 'reasons'
    >)
  /** Of a donor, for its next visit. */
  | { readonly type: 'keepProfile'; readonly rememberedAs: string; readonly profile: PeerProfile }
  | { readonly type: 'log'; readonly level: 'info' | 'debug'; readonly text: string };

/** Why a better plan is looked for, and whose words say so; null: something that happened. */
export interface Cause {
  readonly reason: string;
  readonly by: PeerId | null;
}

type PlanAppraisal = Omit<NonNullable<Snapshot['planning']>, 'measuredSeconds'>;

/** A plan that came out of a search. */
export interface MadePlan {
  readonly plan: Plan;
  readonly reasons: readonly Reason[];
  /** Whose words are behind it. */
  readonly by: readonly PeerId[];
  /** It was searched for at length. */
  readonly isAtLength: boolean;
}

/** A plan that is needed, and searched for. */
export interface NeededPlan {
  readonly search: number;
  readonly ask: number;
  readonly question: PlanWanted;
  /** Then one is made without a search. */
  readonly deadline: number;
  /** Found before, in which nobody works who was seen at work: one without strangers is searched for now. Null: is not. */
  readonly ofStrangers: FoundPlan | null;
}

/** The plan in force and the best one that can be found are compared. */
export interface Comparison {
  readonly search: number;
  readonly causes: readonly Cause[];
  readonly offer: readonly PeerId[];
  readonly epoch: number;
  /** Then the plan in force stays. */
  readonly deadline: number;
}

export interface ReplannerState {
  readonly config: PlanningConfig;
  readonly donors: readonly KnownDonor[];
  readonly pace: Pace;
  /** Of what is said of links: each has two ends, and many may speak at once. */
  readonly linksStanding: Standing;
  readonly trial: Trial | null;
  /** Who is taken for slow to see whether it is. */
  readonly suspicion: Suspicion | null;
  /** What the plan in force replaced, once its trial is over. */
  readonly replaced: Trial | null;
  /** That began last; null: none did. */
  readonly newestPlan: Plan | null;
  readonly appraisal: PlanAppraisal | null;
  /** The newest last. */
  readonly made: readonly MadePlan[];
  readonly causes: readonly Cause[];
  readonly needed: NeededPlan | null;
  readonly comparison: Comparison | null;
  /** The number of an arrival's question that is not answered yet. */
  readonly arrival: number | null;
  /** Numbers of all searches so far. */
  readonly searches: number;
  readonly sampling: Sampling;
}
