/** What a donor's page knows, and what is asked of it. Pure and plain data; how it changes is in events.ts. */
import type { PeerId } from '../../../swarm/base.ts';
import { type Limits, NO_LIMITS } from '../../../swarm/limits.ts';
import type { AdapterProfile, LinkReport } from '../../../swarm/messages/profile.ts';
import type { RunFacts } from '../../../swarm/messages/runFacts.ts';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import type { TurnError } from '../../../swarm/messages/turn.ts';
import { type Compute, computeOf } from '../../../swarm/precision.ts';
import { stepTargets } from '../../../swarm/run/data.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import {
  type Condition,
  type DayTraffic,
  isUsedUp,
  type Moved,
  NO_TRAFFIC,
  type Surroundings,
  UNKNOWN_SURROUNDINGS,
  unmet,
} from './conditions.ts';
import { type Credit, NO_CREDIT } from './credit.ts';
import type { Proof } from './download.ts';
import type { Incident, Outage } from './incidents.ts';
import type { LogEntry } from './log.ts';
import { type Machine, UNKNOWN_MACHINE } from './machine.ts';
import { type DonorPhase, isMember } from './phase.ts';
import { DEFAULT_PREFERENCES, type Preferences } from './preferences.ts';
import { NO_TRIAL, type Trial } from './trial.ts';

/** Why a person wants the GPU to rest. */
export type Rest = { readonly kind: 'button' } | { readonly kind: 'snooze'; readonly untilMs: number };

export interface DonorState {
  readonly phase: DonorPhase;
  /** A button that was pressed and not confirmed yet. */
  readonly pending: 'pause' | 'resume' | 'leave' | null;
  /** Kept over a lost connection: a person who paused stays paused. */
  readonly rest: Rest | null;
  readonly surroundings: Surroundings;
  /** Moved today, by all visits of this browser. */
  readonly today: DayTraffic;
  /** Of it, what the worker that there is had moved when it last said so. */
  readonly moved: Moved | null;
  /** Of what the person gives, while this computer's own frames come late. */
  readonly eased: number;
  /** The last incident of this tab, and that it went on. */
  readonly incident: Incident | null;
  readonly outage: Outage | null;
  /** The speed test. */
  readonly trial: Trial;
  readonly adapter: AdapterProfile | null;
  readonly me: PeerId | null;
  /** By what this tab can say later that it was this peer. */
  readonly proof: Proof | null;
  readonly run: ReturnType<typeof runSummary> | null;
  readonly snapshot: Snapshot | null;
  /** How far the run was when it was seen last, also by a connection that is gone. */
  readonly seen: Pick<Snapshot, 'run' | 'committedSteps'> | null;
  readonly status: DonorStatus | null;
  /** Bytes of what all islands share that it owns though it is in no plan. */
  readonly ownedBytes: number;
  /** The ways to the other donors of the plan, as they were when the newest step began. */
  readonly links: readonly LinkReport[];
  /** What its person was told of TURN servers, the newest. */
  readonly turnTold: readonly TurnError[];
  /** What this donor's line sends to all others at once; null: not measured yet. */
  readonly uploadBytesPerSecond: number | null;
  /** What the person gives, and how this page behaves; kept for the next visit. */
  readonly limits: Limits;
  readonly preferences: Preferences;
  readonly machine: Machine;
  /** Tabs of this browser that donate the same GPU. */
  readonly otherTabs: number;
  readonly credit: Credit;
  readonly log: readonly LogEntry[];
  /** What a minute of the newest steps moved between this tab and other donors, of this visit. */
  readonly minuteBytes: number | null;
  /** Clicks on the button so far. */
  readonly visit: number;
  /** Contributed under earlier connections of this visit; the server counts each connection anew. */
  readonly earlierTokens: number;
}

export const INITIAL_STATE: DonorState = {
  phase: { kind: 'idle' },
  pending: null,
  rest: null,
  surroundings: UNKNOWN_SURROUNDINGS,
  today: NO_TRAFFIC,
  moved: null,
  eased: 1,
  incident: null,
  outage: null,
  trial: NO_TRIAL,
  adapter: null,
  me: null,
  proof: null,
  run: null,
  snapshot: null,
  seen: null,
  status: null,
  ownedBytes: 0,
  links: [],
  turnTold: [],
  uploadBytesPerSecond: null,
  limits: NO_LIMITS,
  preferences: DEFAULT_PREFERENCES,
  machine: UNKNOWN_MACHINE,
  otherTabs: 0,
  credit: NO_CREDIT,
  log: [],
  minuteBytes: null,
  visit: 0,
  earlierTokens: 0,
};

/** What is shown of a run. */
export const runSummary = ({ name, train, data, compute = 'f32' }: RunFacts) => ({
  name,
  /** 0: it ends with its time. */
  steps: train.budget ? 0 : train.steps,
  compute,
  stepTargets: stepTargets(data, train),
});

/** Null where the run, or the adapter, is not known yet. */
export const computeOfTab = ({ run, adapter }: DonorState): Compute | null =>
  run && adapter && computeOf(run.compute, adapter.halves === true);

/** This tab, as the server's newest snapshot has it. */
export function ownEntry({ snapshot, me }: DonorState): Snapshot['donors'][number] | null {
  return snapshot?.donors.find(({ peer }) => peer === me) ?? null;
}

/** Whether others take something over when this tab leaves. */
export const hasHandOver = ({ phase, ownedBytes }: DonorState): boolean =>
  phase.kind === 'joined' || phase.kind === 'computing' || ownedBytes > 0;

export function contributedTokens(state: DonorState): number {
  return state.earlierTokens + (ownEntry(state)?.tokens ?? 0);
}

/** To this run, by all visits of this browser as far as it keeps them; before the run is known, to the one it gave to last. */
export function givenTokens(state: DonorState): number {
  const { runs } = state.credit;
  const name = state.run?.name ?? state.snapshot?.run;
  const kept = name === undefined ? runs.at(-1) : runs.find(({ run }) => run === name);
  return Math.max(contributedTokens(state), kept?.tokens ?? 0);
}

/** To all runs, by all visits of this browser as far as it keeps them. */
export function allGivenTokens(state: DonorState): number {
  const name = state.run?.name ?? state.snapshot?.run ?? state.credit.runs.at(-1)?.run;
  const others = state.credit.runs.filter(({ run }) => run !== name);
  return others.reduce((sum, { tokens }) => sum + tokens, givenTokens(state));
}

/** A phone whose owner has not said that it may compute. */
export const isBarred = ({ machine, preferences }: DonorState): boolean => machine.isPhone && !preferences.phone;

/** The operator holds the run up: nothing here could rest or go on by itself. */
export const isHeld = ({ phase, snapshot }: DonorState): boolean =>
  snapshot?.phase === 'paused' && (phase.kind === 'joined' || phase.kind === 'computing' || phase.kind === 'spare');

/** Whether there is anything to pause here. */
export const hasNothingToPause = (state: DonorState): boolean =>
  state.phase.kind === 'postponed' || (state.phase.kind === 'spare' && state.phase.finished) || isHeld(state);

/**
 * Nothing comes from the server: what is shown of the run is what was last seen. Who has no word of its own from it is told
 * what anyone may know, which `isLost` says is old.
 */
export function isStale({ phase, snapshot }: Pick<DonorState, 'phase' | 'snapshot'>, isLost: boolean): boolean {
  const isAway = phase.kind === 'reconnecting' || phase.kind === 'postponed';
  return snapshot === null ? isLost : isAway || (phase.kind === 'paused' && !phase.connected);
}

/** Nobody else computes, for who does. */
export const isAlone = ({ snapshot }: Pick<DonorState, 'snapshot'>): boolean =>
  snapshot?.donors.filter(({ state }) => state === 'computing').length === 1;

/** Why the GPU is to rest, the person's wish first. */
export function restReason({ rest, preferences, surroundings, today }: DonorState): Rest['kind'] | Condition | null {
  return rest?.kind ?? unmet(preferences, surroundings, today);
}

/** What must happen next so that what is wanted of this tab becomes true: the server is asked for it; `stop` is done here, at once. */
export function due(state: DonorState): 'pause' | 'resume' | 'stop' | null {
  const { phase, pending, preferences, today } = state;
  if (phase.kind === 'paused' && !phase.connected) return restReason(state) === null ? 'resume' : null;
  if (!isMember(state) || pending === 'leave' || (phase.kind === 'spare' && phase.finished)) return null;
  if (isUsedUp(preferences, today)) return 'stop';
  const isResting = pending === 'pause' || (phase.kind === 'paused' && pending !== 'resume');
  const wantsRest = restReason(state) !== null;
  if (wantsRest === isResting) return null;
  return wantsRest ? 'pause' : 'resume';
}
