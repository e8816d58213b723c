/** What an operator's page knows, and how each event changes it. Pure. */
import { assertNever, totalOf } from '../../../swarm/base.ts';
import type { RehearsalsShown } from '../../../swarm/messages/rehearsal.ts';
import type { Snapshot, SnapshotPhase } from '../../../swarm/messages/snapshot.ts';
import {
  type AlertLimits,
  INITIAL_ALERT_LIMITS,
  type OperatorCommand,
  type PeerFacts,
  type PlanInForce,
  type Role,
  type ServedKind,
  type WatchedAnswers,
  type WatchedEvent,
  type WatchedStep,
  type WatchMessage,
} from '../../../swarm/messages/watch.ts';
import { type Section, sectionOf } from './sections.ts';

export type OperatorConnection = 'connecting' | 'open' | 'closed' | 'noLeader' | 'noRun' | 'loggedOut';

/** `command`: what was asked for; null: nothing that can be waited for, as with a refusal. */
interface Answered {
  readonly ok: boolean;
  readonly sentence: string;
  readonly command: OperatorCommand | null;
}

export interface OperatorState {
  readonly connection: OperatorConnection;
  readonly snapshot: Snapshot | null;
  /** Every committed step that this page has been told of, by step. */
  readonly curve: readonly WatchedStep[];
  /** Held-out losses after so many steps. */
  readonly evaluations: readonly (readonly [number, number])[];
  readonly rightAnswers: readonly WatchedAnswers[];
  readonly events: readonly WatchedEvent[];
  readonly peers: readonly PeerFacts[];
  readonly plan: PlanInForce | null;
  /** Of other groups with islands of their own. */
  readonly plansBeside: readonly PlanInForce[];
  /** Steps whose spans the server keeps. */
  readonly traces: readonly [number, number] | null;
  /** When operators want to be told; kept by the server. */
  readonly alertLimits: AlertLimits;
  /** On the server's disk; null: not known. */
  readonly freeBytes: number | null;
  /** Bytes that went through the server itself since it began. */
  readonly served: Readonly<Record<ServedKind, number>> | null;
  readonly rehearsals: RehearsalsShown;
  readonly section: Section;
  /** The command that waits for its answer. */
  readonly asked: OperatorCommand | null;
  readonly answer: Answered | null;
  /** The run that the server was told to change to, until it is back with it; null: none. */
  readonly changingTo: string | null;
  readonly role: Role;
  /** What links to the other pages carry; null: nothing is needed, or this session is not told. */
  readonly invite: string | null;
  readonly login: { readonly busy: boolean; readonly problem: string | null };
}

export type OperatorEvent =
  | { readonly type: 'connectionChanged'; readonly connection: OperatorConnection }
  | { readonly type: 'serverSaid'; readonly message: WatchMessage }
  /** Steps before those that the server tells by itself, spread evenly. */
  | { readonly type: 'olderStepsRead'; readonly run: string; readonly steps: readonly WatchedStep[] }
  | { readonly type: 'sectionChosen'; readonly hash: string }
  | { readonly type: 'commandAsked'; readonly command: OperatorCommand }
  | { readonly type: 'commandAnswered'; readonly ok: boolean; readonly sentence: string }
  | { readonly type: 'changeBegun'; readonly run: string }
  | { readonly type: 'loginAsked' }
  | { readonly type: 'loginAnswered'; readonly problem: string | null };

type CommandAnswered = Extract<OperatorEvent, { type: 'commandAnswered' }>;

export const INITIAL_STATE: OperatorState = {
  connection: 'connecting',
  snapshot: null,
  curve: [],
  evaluations: [],
  rightAnswers: [],
  events: [],
  peers: [],
  plan: null,
  plansBeside: [],
  traces: null,
  alertLimits: INITIAL_ALERT_LIMITS,
  freeBytes: null,
  served: null,
  rehearsals: { donors: [], rows: [] },
  section: 'run',
  asked: null,
  answer: null,
  changingTo: null,
  role: 'operator',
  invite: null,
  login: { busy: false, problem: null },
};

/** Of every group; the newest first. */
export const allPlans = ({ plan, plansBeside }: Pick<OperatorState, 'plan' | 'plansBeside'>): readonly PlanInForce[] =>
  plan === null ? [] : [plan, ...plansBeside];

/** Steps kept to draw; a longer run loses its oldest ones. */
const CURVE_LIMIT = 20_000;
const EVENTS_LIMIT = 2_000;

export function nextState(state: OperatorState, event: OperatorEvent): OperatorState {
  switch (event.type) {
    case 'connectionChanged':
      // The server that is back after a change has made it, or could not.
      return {
        ...state,
        connection: event.connection,
        changingTo: event.connection === 'open' ? null : state.changingTo,
      };
    case 'serverSaid':
      return withMessage(state, event.message);
    case 'olderStepsRead': {
      const first = state.curve[0]?.step ?? 0;
      const older = event.run === state.snapshot?.run ? event.steps.filter(({ step }) => step < first) : [];
      return { ...state, curve: [...older, ...state.curve].slice(-CURVE_LIMIT) };
    }
    case 'sectionChosen':
      return { ...state, section: sectionOf(event.hash), login: { ...state.login, problem: null } };
    case 'commandAsked':
      return { ...state, asked: event.command, answer: null };
    case 'commandAnswered':
      return { ...state, asked: null, answer: answerTo(state, event) };
    case 'changeBegun':
      return { ...state, changingTo: event.run };
    case 'loginAsked':
      return { ...state, login: { busy: true, problem: null } };
    case 'loginAnswered': {
      const connection = event.problem === null ? 'connecting' : state.connection;
      return { ...state, connection, login: { busy: false, problem: event.problem } };
    }
    default:
      return assertNever(event);
  }
}

function withMessage(state: OperatorState, message: WatchMessage): OperatorState {
  const { snapshot, recent, events } = message;
  const isSameRun = snapshot.run === state.snapshot?.run;
  const known = isSameRun ? state : { ...INITIAL_STATE, section: state.section, login: state.login };
  const newest = known.events.at(-1)?.id ?? 0;
  const fresh = events.filter(({ id }) => id > newest);
  const isUnmoved = recent.length === 0 && known.curve.length <= snapshot.committedSteps;
  return {
    ...known,
    connection: 'open',
    asked: state.asked,
    role: message.role ?? state.role,
    invite: message.invite ?? null,
    snapshot: { ...snapshot, links: snapshot.links ?? known.snapshot?.links },
    // The same list where nothing came: what is drawn of it is not worked out again.
    curve: isUnmoved ? known.curve : mergeCurve(known.curve, recent, snapshot.committedSteps),
    events: fresh.length === 0 ? known.events : [...known.events, ...fresh].slice(-EVENTS_LIMIT),
    evaluations: message.evaluations ?? known.evaluations,
    rightAnswers: message.rightAnswers ?? known.rightAnswers,
    peers: message.peers ?? known.peers,
    plan: message.plan === undefined ? known.plan : message.plan,
    plansBeside: message.plansBeside ?? known.plansBeside,
    traces: message.traces === undefined ? known.traces : message.traces,
    alertLimits: message.alertLimits ?? known.alertLimits,
    freeBytes: message.freeBytes === undefined ? known.freeBytes : message.freeBytes,
    served: message.served ?? known.served,
    rehearsals: message.rehearsals ?? known.rehearsals,
    answer: unlessItShows(state.answer, snapshot),
    changingTo: snapshot.changesTo ?? known.changingTo,
  };
}

function answerTo({ asked, snapshot }: OperatorState, { ok, sentence }: CommandAnswered): Answered | null {
  return unlessItShows({ ok, sentence, command: ok ? asked : null }, snapshot);
}

/** That it was told stops being news when the run is as it was told to be, whichever of both comes first. */
function unlessItShows(answer: Answered | null, snapshot: Snapshot | null): Answered | null {
  if (!answer?.command || snapshot === null) return answer;
  const { phase, isStopped = false } = snapshot;
  const isPaused = phase === 'paused';
  const isAsTold = { start: !isPaused, resume: !isPaused, pause: isPaused, stop: isStopped }[answer.command];
  return isAsTold || phase === 'finished' ? null : answer;
}

/** The newer word replaces the older; what a roll-back took out again is gone. */
export function mergeCurve(
  curve: readonly WatchedStep[],
  recent: readonly WatchedStep[],
  committedSteps: number,
): readonly WatchedStep[] {
  const from = Math.min(committedSteps, recent[0]?.step ?? committedSteps);
  const kept = curve.filter(({ step }) => step < from);
  return [...kept, ...recent.filter(({ step }) => step < committedSteps)].slice(-CURVE_LIMIT);
}

/** Mean of the newest steps' time, times what is to be done; null before there is a step or when none is left. */
export function secondsLeft({ snapshot, curve }: OperatorState): number | null {
  const newest = curve.slice(-20);
  if (!snapshot || newest.length === 0 || snapshot.committedSteps >= snapshot.steps) return null;
  const mean = totalOf(newest, ({ seconds }) => seconds) / newest.length;
  return mean * (snapshot.steps - snapshot.committedSteps);
}

/** Why a button means nothing as things are, in a sentence; null: it may be pressed. */
export function whyNot(command: OperatorCommand, { phase, isStopped = false }: Snapshot): string | null {
  const isPaused = phase === 'paused' && !isStopped;
  const rests = isStopped ? 'The run is stopped already.' : REST[phase];
  switch (command) {
    case 'start':
      if (isStopped) return null;
      return isPaused ? 'The run is paused: Resume goes on with it.' : (rests ?? 'The run is under way already.');
    case 'resume':
      if (isPaused) return null;
      if (isStopped) return 'The run is stopped: Start goes on where it ended.';
      return rests ?? 'The run is not paused.';
    case 'pause':
      return isPaused ? 'The run is paused already.' : rests;
    case 'stop':
      return isPaused ? null : rests;
    default:
      return assertNever(command);
  }
}

/** Where nothing is under way. */
const REST: Readonly<Record<SnapshotPhase, string | null>> = {
  ...{ waiting: null, preparing: null, training: null, evaluating: null, saving: null, paused: null },
  finished: 'The run is finished: all its steps are done.',
};
