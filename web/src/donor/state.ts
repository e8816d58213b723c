/**
 * What a donor's page knows, and how each event changes it. Pure. The server's word is the truth: a button changes the
 * phase only when the server has confirmed it, until then it is `pending`.
 */
import { assertNever, type PeerId } from '../../../swarm/base.ts';
import { type Limits, NO_LIMITS } from '../../../swarm/limits.ts';
import type { AdapterProfile, LinkReport, RefusalReason, ServerMessage, Snapshot } from '../../../swarm/messages.ts';
import type { DonorStatus } from '../gpu/protocol.ts';
import type { SignalingState } from '../net/signaling.ts';

export type FailureReason =
  | 'insecure'
  | 'noWebGpu'
  | 'noWebRtc'
  | 'noAdapter'
  | 'deviceLost'
  | 'wrongGpu'
  | 'internal'
  | RefusalReason;

export type DonorPhase =
  | { readonly kind: 'idle' }
  | { readonly kind: 'starting'; readonly waitsFor: 'gpu' | 'server' | 'check' }
  /** Known to the server, not computing yet: waiting for a plan, or getting ready for one. */
  | { readonly kind: 'joined' }
  | { readonly kind: 'computing' }
  | { readonly kind: 'spare'; readonly finished: boolean }
  | { readonly kind: 'paused' }
  /** confirmed: the server took over what this tab kept before it left. */
  | { readonly kind: 'left'; readonly confirmed: boolean }
  | { readonly kind: 'failed'; readonly reason: FailureReason; readonly detail: string }
  | { readonly kind: 'reconnecting'; readonly reason: 'server' | 'deviceLost' | 'internal' };

export interface DonorState {
  readonly phase: DonorPhase;
  /** A button that was pressed and not confirmed yet. */
  readonly pending: 'pause' | 'resume' | 'leave' | null;
  /** Kept over a lost connection: a person who paused stays paused. */
  readonly wantsPause: boolean;
  readonly adapter: AdapterProfile | null;
  readonly me: PeerId | null;
  readonly run: { readonly name: string; readonly steps: number } | null;
  readonly snapshot: Snapshot | null;
  readonly status: DonorStatus | null;
  /** The ways to the other donors of the plan, as they were when the newest step began. */
  readonly links: readonly LinkReport[];
  /** What the person gives; kept as long as the page is open. */
  readonly limits: Limits;
  /** Contributed under earlier connections of this visit; the server counts each connection anew. */
  readonly earlierTokens: number;
}

export type DonorEvent =
  | { readonly type: 'donateClicked' }
  | { readonly type: 'gpuOpened'; readonly adapter: AdapterProfile }
  | { readonly type: 'failed'; readonly reason: FailureReason; readonly detail: string }
  | { readonly type: 'restarting'; readonly reason: 'deviceLost' | 'internal' }
  | { readonly type: 'signalingChanged'; readonly state: SignalingState }
  | { readonly type: 'serverSaid'; readonly message: ServerMessage }
  | { readonly type: 'workerShowed'; readonly status: DonorStatus }
  | { readonly type: 'linksMeasured'; readonly links: readonly LinkReport[] }
  /** The kernels' check is passed, and the server told. */
  | { readonly type: 'admitted' }
  | { readonly type: 'limited'; readonly limits: Limits }
  | { readonly type: 'asked'; readonly what: 'pause' | 'resume' | 'leave' }
  | { readonly type: 'leftUnconfirmed' };

export const INITIAL_STATE: DonorState = {
  phase: { kind: 'idle' },
  pending: null,
  wantsPause: false,
  adapter: null,
  me: null,
  run: null,
  snapshot: null,
  status: null,
  links: [],
  limits: NO_LIMITS,
  earlierTokens: 0,
};

/** This tab, as the server's newest snapshot has it. */
export function ownEntry({ snapshot, me }: DonorState): Snapshot['donors'][number] | null {
  return snapshot?.donors.find(({ peer }) => peer === me) ?? null;
}

export function contributedTokens(state: DonorState): number {
  return state.earlierTokens + (ownEntry(state)?.tokens ?? 0);
}

/** Whether a click on the button may start this tab. */
export function mayDonate({ phase }: DonorState): boolean {
  return phase.kind === 'idle' || phase.kind === 'left' || phase.kind === 'failed';
}

/** Whether the server has this tab in its books, so that pause and leave mean something. */
export function isMember({ phase }: DonorState): boolean {
  return ['joined', 'computing', 'spare', 'paused'].includes(phase.kind);
}

export function nextState(state: DonorState, event: DonorEvent): DonorState {
  switch (event.type) {
    case 'donateClicked':
      return { ...INITIAL_STATE, limits: state.limits, phase: { kind: 'starting', waitsFor: 'gpu' } };
    case 'gpuOpened': {
      const isFirst = state.phase.kind === 'starting';
      return {
        ...state,
        adapter: event.adapter,
        phase: isFirst ? { kind: 'starting', waitsFor: 'server' } : state.phase,
      };
    }
    case 'failed':
      return { ...state, phase: { kind: 'failed', reason: event.reason, detail: event.detail }, pending: null };
    case 'restarting':
      return { ...state, phase: { kind: 'reconnecting', reason: event.reason }, status: null };
    case 'signalingChanged':
      return afterSignaling(state, event.state);
    case 'serverSaid':
      return afterMessage(state, event.message);
    case 'workerShowed':
      return { ...state, status: event.status };
    case 'linksMeasured':
      return { ...state, links: event.links };
    case 'admitted':
      return { ...state, phase: { kind: 'joined' }, pending: state.wantsPause ? 'pause' : null };
    case 'limited':
      return { ...state, limits: event.limits };
    case 'asked': {
      const wantsPause = event.what === 'pause' || (event.what === 'leave' && state.wantsPause);
      return { ...state, pending: event.what, wantsPause };
    }
    case 'leftUnconfirmed':
      return { ...state, phase: { kind: 'left', confirmed: false }, pending: null, wantsPause: false };
    default:
      return assertNever(event);
  }
}

function afterSignaling(state: DonorState, signaling: SignalingState): DonorState {
  switch (signaling.kind) {
    case 'closed':
      return { ...state, phase: { kind: 'reconnecting', reason: 'server' }, status: null };
    case 'refused':
      return {
        ...state,
        phase: { kind: 'failed', reason: signaling.reason, detail: signaling.detail },
        pending: null,
      };
    case 'connecting':
    case 'open': // its welcome is a message of its own
      return state;
    default:
      return assertNever(signaling);
  }
}

function afterMessage(state: DonorState, message: ServerMessage): DonorState {
  switch (message.type) {
    case 'welcome':
      return {
        ...state,
        phase: { kind: 'starting', waitsFor: 'check' },
        pending: null,
        me: message.peer,
        run: { name: message.run.name, steps: message.run.train.steps },
        snapshot: null,
        status: null,
        earlierTokens: contributedTokens(state),
      };
    case 'prepare':
    case 'abandon':
      return inPlan(state, { kind: 'joined' });
    case 'start':
    case 'evaluate':
    case 'committed':
      return inPlan(state, { kind: 'computing' });
    case 'standby':
      return afterStandby(state, message.state);
    case 'snapshot':
      return afterSnapshot({ ...state, snapshot: message.snapshot });
    case 'refused':
    case 'signal':
    case 'limits':
      return state;
    default:
      return assertNever(message);
  }
}

/** What concerns a plan concerns its members: an answer that was overtaken by a pause changes nothing. */
function inPlan(state: DonorState, phase: DonorPhase): DonorState {
  if (!isMember(state)) return state;
  if (state.phase.kind === 'paused' && state.pending !== 'resume') return state;
  return { ...state, phase, pending: state.pending === 'resume' ? null : state.pending };
}

function afterStandby(state: DonorState, standby: 'paused' | 'left' | 'spare' | 'finished'): DonorState {
  switch (standby) {
    case 'paused':
      return { ...state, phase: { kind: 'paused' }, pending: state.pending === 'pause' ? null : state.pending };
    case 'left':
      return { ...state, phase: { kind: 'left', confirmed: true }, pending: null, wantsPause: false };
    case 'spare':
    case 'finished':
      return {
        ...state,
        phase: { kind: 'spare', finished: standby === 'finished' },
        pending: state.pending === 'leave' ? 'leave' : null,
        wantsPause: false,
      };
    default:
      return assertNever(standby);
  }
}

/** The snapshot mends what a missed word would leave wrong. */
function afterSnapshot(state: DonorState): DonorState {
  const entry = ownEntry(state);
  if (!entry || !isMember(state)) return state;
  const { phase, pending } = state;
  if (entry.state === 'paused' && pending !== 'resume' && phase.kind !== 'paused') {
    return { ...state, phase: { kind: 'paused' }, pending: pending === 'pause' ? null : pending };
  }
  if (entry.state === 'spare' && (phase.kind === 'joined' || phase.kind === 'computing')) {
    return { ...state, phase: { kind: 'spare', finished: state.snapshot?.phase === 'finished' } };
  }
  if (entry.state !== 'paused' && phase.kind === 'paused' && pending === 'resume') {
    return { ...state, phase: { kind: 'joined' }, pending: null };
  }
  return state;
}
