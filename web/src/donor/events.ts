/**
 * What may happen to a donor's page, and how each event changes what it knows. Pure. The server's word is the truth: a
 * button changes the phase only when the server has confirmed it, until then it is `pending`.
 */
import { assertNever } from '../../../swarm/base.ts';
import { OWNER_BYTES } from '../../../swarm/islands/ownerShares.ts';
import { NO_EPOCH } from '../../../swarm/messages/meetingWords.ts';
import type { ServerMessage, SpareReason } from '../../../swarm/messages/messages.ts';
import type { AdapterProfile, MeasuredLinks } from '../../../swarm/messages/profile.ts';
import { MOST_TURN_ERRORS, type TurnError } from '../../../swarm/messages/turn.ts';
import { sizeOf } from '../../../swarm/plan/shardCuts.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import type { SignalingState } from '../net/signaling.ts';
import { counted, type DayTraffic, NO_TRAFFIC, type Surroundings } from './conditions.ts';
import { turnFails } from './incidents.ts';
import { type DonorPhase, type FailureReason, isMember } from './phase.ts';
import {
  contributedTokens,
  type DonorState,
  hasHandOver,
  INITIAL_STATE,
  ownEntry,
  type Rest,
  restReason,
  runSummary,
} from './state.ts';

/** Of the newest step in what a minute moves: one step alone says little. */
const NEWEST_WEIGHT = 0.2;

/** `seen`: by this tab before it was loaded anew; `today`: by all tabs; `eased`: by the watch on this page's frames. */
type Learned =
  | 'limits'
  | 'preferences'
  | 'machine'
  | 'today'
  | 'eased'
  | 'incident'
  | 'seen'
  | 'trial'
  | 'otherTabs'
  | 'credit';

export type DonorEvent =
  | { readonly type: 'donateClicked' }
  | { readonly type: 'gpuOpened'; readonly adapter: AdapterProfile }
  | { readonly type: 'failed'; readonly reason: FailureReason; readonly detail: string }
  | { readonly type: 'restarting'; readonly reason: 'deviceLost' | 'internal' }
  | { readonly type: 'signalingChanged'; readonly state: SignalingState }
  /** Of a refusal that is not final. */
  | { readonly type: 'countedDown'; readonly secondsLeft: number }
  | { readonly type: 'askedAgain' }
  | { readonly type: 'serverSaid'; readonly message: ServerMessage }
  | { readonly type: 'workerShowed'; readonly status: DonorStatus }
  | { readonly type: 'linksMeasured'; readonly measured: MeasuredLinks; readonly atMs: number }
  /** The kernels' check is passed, and the server told. */
  | { readonly type: 'admitted' }
  /** What stands in the state as it was told. */
  | { readonly type: 'learned'; readonly now: Partial<Pick<DonorState, Learned>> }
  /** used: what this browser has moved on that day; absent: it keeps nothing. */
  | { readonly type: 'surroundingsSeen'; readonly surroundings: Surroundings; readonly used?: DayTraffic }
  /** Without `rest` nobody pressed a button: the page's own conditions ask. */
  | { readonly type: 'asked'; readonly what: 'pause' | 'resume' | 'leave'; readonly rest?: Rest }
  /** rest: whose wish it was; null: a condition's, which ends some day. */
  | { readonly type: 'pausedAtOnce'; readonly rest: Rest | null }
  | { readonly type: 'resumedAfresh' }
  | { readonly type: 'leftUnconfirmed' };

export function nextState(state: DonorState, event: DonorEvent): DonorState {
  switch (event.type) {
    case 'donateClicked':
      return begun(state);
    case 'gpuOpened': {
      const isFirst = state.phase.kind === 'starting';
      return {
        ...state,
        adapter: event.adapter,
        moved: null,
        phase: isFirst ? { kind: 'starting', waitsFor: 'server' } : state.phase,
      };
    }
    case 'failed':
      return { ...state, phase: { kind: 'failed', reason: event.reason, detail: event.detail }, pending: null };
    case 'restarting':
      return { ...state, phase: { kind: 'reconnecting', reason: event.reason }, status: null };
    case 'signalingChanged':
      return afterSignaling(state, event.state);
    case 'countedDown':
      return state.phase.kind === 'postponed'
        ? { ...state, phase: { ...state.phase, secondsLeft: event.secondsLeft } }
        : state;
    case 'askedAgain':
      return { ...state, phase: { kind: 'starting', waitsFor: 'gpu' } };
    case 'serverSaid':
      return afterMessage(state, event.message);
    case 'workerShowed':
      return afterStatus(state, event.status);
    case 'linksMeasured':
      return afterLinks(state, event.measured, event.atMs);
    case 'admitted':
      return { ...state, phase: { kind: 'joined' }, pending: restReason(state) === null ? null : 'pause' };
    case 'learned':
      return { ...state, ...event.now };
    case 'surroundingsSeen':
      return afterLook(state, event.surroundings, event.used);
    case 'asked': {
      const rest = event.what === 'resume' ? null : (event.rest ?? state.rest);
      return { ...state, pending: event.what, rest };
    }
    case 'pausedAtOnce':
      return {
        ...state,
        phase: { kind: 'paused', connected: false },
        pending: null,
        rest: event.rest,
        status: null,
        links: [],
      };
    case 'resumedAfresh':
      return { ...state, phase: { kind: 'starting', waitsFor: 'gpu' }, pending: null, rest: null };
    case 'leftUnconfirmed':
      return { ...state, phase: { kind: 'left', handedOver: false }, pending: null, rest: null };
    default:
      return assertNever(event);
  }
}

/** A new visit: what the page knows stays, what the last visit was goes. */
function begun(state: DonorState): DonorState {
  const { limits, preferences, surroundings, today, machine, otherTabs, credit, log, visit } = state;
  const kept = { limits, preferences, surroundings, today, machine, otherTabs, credit, log };
  return { ...INITIAL_STATE, ...kept, visit: visit + 1, phase: { kind: 'starting', waitsFor: 'gpu' } };
}

/** A new day has its traffic before it; one that a clock was set back to has what was used of it. */
function afterLook(state: DonorState, surroundings: Surroundings, used?: DayTraffic): DonorState {
  const { day } = surroundings;
  return { ...state, surroundings, today: state.today.day === day ? state.today : (used ?? { ...NO_TRAFFIC, day }) };
}

/** Each TURN server's code is told once. */
function afterLinks(
  state: DonorState,
  { links, uploadBytesPerSecond, turnErrors = [] }: MeasuredLinks,
  atMs: number,
): DonorState {
  const measured = { links, uploadBytesPerSecond: uploadBytesPerSecond ?? state.uploadBytesPerSecond };
  const isTold = (error: TurnError): boolean =>
    state.turnTold.some(({ url, code }) => url === error.url && code === error.code);
  const untold = turnErrors.filter((error) => !isTold(error));
  if (untold.length === 0) return { ...state, ...measured };
  const turnTold = [...state.turnTold, ...untold].slice(-2 * MOST_TURN_ERRORS);
  return { ...state, ...measured, turnTold, incident: turnFails(untold, atMs) };
}

/** A trace comes again with every status until the next step's: the same one stays the same object, drawn once. */
function afterStatus(state: DonorState, status: DonorStatus): DonorState {
  const { lastStep } = status;
  const before = state.status?.lastStep;
  const { bytesSent, bytesReceived } = status;
  const moved = { bytesSent, bytesReceived };
  const today = counted(state.today, state.moved, moved);
  if (!lastStep) return { ...state, status, today, moved };
  if (before && before.step === lastStep.step && before.epoch === lastStep.epoch) {
    return { ...state, today, moved, status: { ...status, lastStep: before } };
  }
  const newest = (lastStep.bytes / Math.max(lastStep.seconds, 0.001)) * 60;
  return {
    ...state,
    status,
    today,
    moved,
    minuteBytes: newest * NEWEST_WEIGHT + (state.minuteBytes ?? newest) * (1 - NEWEST_WEIGHT),
  };
}

function afterSignaling(state: DonorState, signaling: SignalingState): DonorState {
  switch (signaling.kind) {
    case 'closed':
      return { ...state, phase: { kind: 'reconnecting', reason: 'server' }, status: null };
    case 'refused':
      return refused(state, signaling);
    case 'connecting':
    case 'open': // its welcome is a message of its own
      return state;
    default:
      return assertNever(signaling);
  }
}

type Refused = Extract<SignalingState, { kind: 'refused' }>;

function refused(state: DonorState, { reason, detail, retrySeconds }: Refused): DonorState {
  const phase: DonorPhase =
    retrySeconds === null
      ? { kind: 'failed', reason, detail }
      : { kind: 'postponed', reason, detail, secondsLeft: retrySeconds };
  return { ...state, phase, pending: null, status: null, links: [] };
}

function afterMessage(state: DonorState, message: ServerMessage): DonorState {
  switch (message.type) {
    case 'welcome': {
      // Nothing went on without it.
      if (message.heard !== null) return { ...state, phase: { kind: 'joined' } };
      // The same peer again is counted on.
      const isStill = message.peer === state.me;
      const run = runSummary(message.run);
      return {
        ...state,
        phase: { kind: 'starting', waitsFor: 'check' },
        pending: null,
        me: message.peer,
        proof: { run: run.name, peer: message.peer, key: message.resumeKey },
        run,
        snapshot: isStill ? state.snapshot : null,
        status: null,
        ownedBytes: isStill ? state.ownedBytes : 0,
        earlierTokens: isStill ? state.earlierTokens : run.name === state.run?.name ? contributedTokens(state) : 0,
      };
    }
    case 'prepare':
    case 'abandon':
      return inPlan(state, { kind: 'joined' });
    case 'start':
    case 'evaluate':
    case 'committed':
    case 'save':
    case 'meet':
    case 'meetingOver':
      if (message.epoch !== NO_EPOCH) return inPlan(state, { kind: 'computing' });
      return message.type === 'meet' ? { ...state, ownedBytes: ownedBytes(state, message) } : state;
    case 'standby':
      return afterStandby(state, message);
    case 'snapshot':
      return afterSnapshot({ ...state, snapshot: message.snapshot });
    case 'refused':
    case 'helloAgain':
    case 'signal':
    case 'warm':
    case 'limits':
    case 'probe':
    case 'answer':
      return state;
    default:
      return assertNever(message);
  }
}

/** From the end of this meeting on. */
function ownedBytes({ me }: DonorState, { owners }: Extract<ServerMessage, { type: 'meet' }>): number {
  const own = owners?.ranges.filter(({ keep }) => me !== null && keep.includes(me)) ?? [];
  return OWNER_BYTES * own.reduce((sum, one) => sum + sizeOf(one), 0);
}

/** What concerns a plan concerns its members: an answer that was overtaken by a pause changes nothing. */
function inPlan(state: DonorState, phase: DonorPhase): DonorState {
  if (!isMember(state)) return state;
  if (state.phase.kind === 'paused' && state.pending !== 'resume') return state;
  return { ...state, phase, pending: state.pending === 'resume' ? null : state.pending };
}

type Standby = Extract<ServerMessage, { type: 'standby' }>;

function afterStandby(state: DonorState, { state: standby, why, place }: Standby): DonorState {
  switch (standby) {
    case 'paused':
      return {
        ...state,
        phase: { kind: 'paused', connected: true },
        ownedBytes: 0,
        pending: state.pending === 'pause' ? null : state.pending,
      };
    case 'left': {
      const by = state.pending === 'leave' ? {} : ({ by: 'operator' } as const);
      return { ...state, phase: { kind: 'left', handedOver: hasHandOver(state), ...by }, pending: null, rest: null };
    }
    case 'spare': // a pause that is asked for is confirmed by a word of its own
      return {
        ...state,
        phase: { kind: 'spare', finished: false, why, place },
        pending: state.pending === 'resume' ? null : state.pending,
      };
    case 'finished':
      return finished(state, why);
    default:
      return assertNever(standby);
  }
}

/** There is nothing left to rest from, or to wait for. */
const finished = (state: DonorState, why: SpareReason | undefined): DonorState => ({
  ...state,
  phase: { kind: 'spare', finished: true, why },
  pending: state.pending === 'leave' ? 'leave' : null,
  rest: null,
});

/** The snapshot mends what a missed word would leave wrong. */
function afterSnapshot(state: DonorState): DonorState {
  const entry = ownEntry(state);
  if (!entry || !isMember(state)) return state;
  const { phase, pending, snapshot } = state;
  if (snapshot?.phase === 'finished')
    return phase.kind === 'spare' && phase.finished ? state : finished(state, undefined);
  if (entry.state === 'paused' && pending !== 'resume' && phase.kind !== 'paused') {
    return { ...state, phase: { kind: 'paused', connected: true }, pending: pending === 'pause' ? null : pending };
  }
  if (entry.state === 'spare' && (phase.kind === 'joined' || phase.kind === 'computing')) {
    return { ...state, phase: { kind: 'spare', finished: false, why: undefined } };
  }
  if (entry.state !== 'paused' && phase.kind === 'paused' && pending === 'resume') {
    return { ...state, phase: { kind: 'joined' }, pending: null };
  }
  return state;
}
