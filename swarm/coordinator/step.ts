/**
 * The coordinator: one pure function from a state, an event and the time to the next state and what is to be done about
 * it. The same function runs in the server, in tests with a clock of their own, and in a fuzzer. Rules CO in SPEC.md.
 */

import { assertNever } from '../base.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import { allSaved, cameOf, given, met } from './allGroups.ts';
import { ask, departed, planned } from './asking.ts';
import { audited, evidenceIn, lateAudits, settleAudits } from './auditing.ts';
import { savedScale } from './beginning.ts';
import { dismiss } from './blame.ts';
import { awaitedCheckpoint, copyCompared, pendingNow, silentUploads, uploading, uploadsMissing } from './checkpoint.ts';
import { withoutLateCopies } from './commit.ts';
import { considerCheckpoint } from './contested.ts';
import { isPrimaryCompared } from './copies.ts';
import { LOOK_AGAIN_MS } from './deadlines.ts';
import { donorSaid } from './donorSaid.ts';
import type { CoordinatorEvent, DonorMessage, Effect, OperatorCommand } from './events.ts';
import { letIn } from './newcomers.ts';
import { COMMANDED } from './operatorWords.ts';
import { lateArrival, lateEvaluation, lateIn, lateStep, lookAtRelay, overdue, relaySaw } from './overdue.ts';
import { boundary, considerInterruption, lose, planAnew, planOn, stopNow, waitWithout } from './planInForce.ts';
import { stuckBehind, stuckIn, stuckInEvaluation, withoutWaiting } from './progress.ts';
import { considerReturn, mayReturn, missedReturn, wasAwayShortly } from './returning.ts';
import {
  type AwaitingCheckpoint,
  type CoordinatorState,
  type Evaluating,
  isPlanningAnew,
  type Preparing,
  planInForce,
  type Saving,
  type Training,
} from './state.ts';
import { amongOf, keepingState, membersInvolved, uncopied, uncopiedSentence, willing } from './successor.ts';
import { reportersOf } from './tally.ts';
import { change, donorOf, forget, forgive, log, send, type Transition } from './transition.ts';
import { sliceRelayed } from './unequal.ts';
import { comeOneByOne } from './visits.ts';
import { bringBack, considerWarmUp, lateToWarmUp } from './warmUp.ts';

/** `groups`: absent where this is the only group. */
export function step(
  before: CoordinatorState,
  event: CoordinatorEvent,
  now: number,
  groups: Transition['groups'] = { count: 1, usedEpoch: before.epoch },
): [CoordinatorState, Effect[]] {
  const transition: Transition = { state: before, effects: [], now, groups };
  if (before.phase.name === 'stopped') whileStopped(transition, event);
  else {
    handle(transition, event);
    settleAudits(transition);
    considerReturn(transition);
    letIn(transition);
    ask(transition);
    considerWarmUp(transition);
    // Whose word on a copy was waited for may be gone, or under another epoch.
    const { pending, donors, epoch } = transition.state;
    const isLess = donors.length < before.donors.length || epoch !== before.epoch;
    if (pending.length > 0 && isLess) considerCheckpoint(transition);
    tellOfLastCopies(before, transition);
  }
  if (showsMore(before, transition.state)) transition.effects.push({ type: 'publish' });
  return [transition.state, transition.effects];
}

/** Nothing is done any more. Who is here is shown all the same, and who leaves or pauses waits for nothing. */
function whileStopped(transition: Transition, event: CoordinatorEvent) {
  if (event.type === 'donorJoined') joined(transition, event);
  else if (event.type === 'donorGone') gone(transition, event);
  else if (event.type === 'donorSaid' && BUTTONS.includes(event.message.type))
    donorSaid(transition, event.peer, event.message);
}

const BUTTONS: readonly DonorMessage['type'][] = ['pause', 'resume', 'leave'];

function tellOfLastCopies(before: CoordinatorState, transition: Transition) {
  const { state } = transition;
  const isSame = before.donors === state.donors && keepingState(before)?.lacking === keepingState(state)?.lacking;
  if (isSame || uncopied(before).length > 0) return;
  const sentence = uncopiedSentence(uncopied(state));
  if (sentence !== '') log(transition, 'warn', sentence);
}

function handle(transition: Transition, event: CoordinatorEvent) {
  switch (event.type) {
    case 'donorJoined':
      return joined(transition, event);
    case 'donorGone':
      return gone(transition, event);
    case 'donorSaid':
      return donorSaid(transition, event.peer, event.message, event.chance);
    case 'operatorSaid':
      return operatorSaid(transition, event.command);
    case 'sentBack':
      return sentBack(transition, event);
    case 'stateLost':
      return waitWithout(transition, event.reason);
    case 'stepsHeld':
      change(transition, { held: event.held });
      if (transition.state.phase.name === 'holding') boundary(transition);
      return;
    case 'uploading':
      return uploading(transition, event.peer);
    case 'gatheringEnded':
      change(transition, { gathering: 'over' });
      if (transition.state.donors.length > 0) considerInterruption(transition);
      return;
    case 'copyCompared':
      copyCompared(transition, event);
      return considerCheckpoint(transition);
    case 'sliceRelayed':
      return sliceRelayed(transition, event);
    case 'unsoundRelayed':
      return unsoundRelayed(transition, event);
    case 'relaySaw':
      return relaySaw(transition, event);
    case 'met':
      return met(transition, event);
    case 'cameOf':
      return cameOf(transition, event);
    case 'given':
      return given(transition, event);
    case 'allSaved':
      return allSaved(transition, event);
    case 'groupsEnded':
      return planAnew(transition, event.reason);
    case 'failedMeeting':
      dismiss(transition, event.peers, event.reason, event.areLate ? 'tooLate' : 'faulty');
      return planOn(transition, event.reason);
    case 'evidenceIn':
      return evidenceIn(transition, event);
    case 'audited':
      return audited(transition, event);
    case 'planned':
      return planned(transition, event.ask, event.answer);
    case 'deadlineReached':
      return expire(transition);
    default:
      assertNever(event);
  }
}

const precisionOf = ({ halves }: AdapterProfile): string =>
  halves ? 'computes with halves' : 'has no shader-f16 and computes in f32';

function joined(transition: Transition, event: Extract<CoordinatorEvent, { type: 'donorJoined' }>) {
  const { peer, adapter, memoryBytes = null, hostBytes, address, isOwn, isApart, wasHere } = event;
  const { donors, phase, config } = transition.state;
  const earned = phase.name === 'returning' ? phase.credit.find((entry) => entry.peer === peer) : undefined;
  if (phase.name === 'finished') {
    const atStep = transition.state.committedSteps;
    transition.effects.push({
      ...{ type: 'refuse', peer, atStep, reason: 'runFinished', detail: `${config.name} is finished` },
    });
    return;
  }
  const { state, now } = transition;
  const isAtWork = planInForce(state) !== null || amongOf(state) !== 'everyone';
  const waits = comeOneByOne(state.visits, now);
  const newcomer = isAtWork && !isOwn && !isApart ? { sinceMs: now, waits } : null;
  change(transition, {
    donors: [
      ...donors,
      {
        ...{ peer, adapter, memoryBytes, wish: 'compute', tokens: earned?.tokens ?? 0 },
        ...(hostBytes !== undefined && { hostBytes }),
        ...{ address, isOwn, wasLate: false, asideUntilMs: null, rests: 0, newcomer },
        ...(isApart && { isApart }),
      },
    ],
  });
  if (wasHere || mayReturn(transition.state, peer)) wasAwayShortly(transition);
  log(transition, 'info', `${peer} joined${config.compute === 'f16' ? `: it ${precisionOf(adapter)}` : ''}.`);
  const full = (planInForce(transition.state)?.duties.length ?? 0) >= config.capacity;
  if (newcomer?.waits) send(transition, [peer], { type: 'standby', state: 'spare', why: 'queued' });
  else if (full) send(transition, [peer], { type: 'standby', state: 'spare', why: 'full' });
  considerInterruption(transition);
}

function gone(transition: Transition, { peer, detail }: Extract<CoordinatorEvent, { type: 'donorGone' }>) {
  if (!donorOf(transition, peer)) return;
  const { state } = transition;
  const isMissed = willing(state).includes(peer) || membersInvolved(state).includes(peer);
  forget(transition, peer);
  if (isMissed) departed(transition);
  log(transition, 'info', `${peer} is gone: ${detail}.`);
  lose(transition, peer, `${peer} is gone`);
}

/** Once for each direction: what is first is all that matters. */
function unsoundRelayed(
  transition: Transition,
  { epoch, from, to }: Extract<CoordinatorEvent, { type: 'unsoundRelayed' }>,
) {
  const { sightings, relayed, epoch: current } = transition.state;
  const isNews = !sightings.some((one) => one.from === from && one.to === to);
  const isAwaited = relayed.some((pair) => pair.includes(from) && pair.includes(to));
  if (epoch === current && isNews && isAwaited) change(transition, { sightings: [...sightings, { from, to }] });
}

function operatorSaid(transition: Transition, command: OperatorCommand) {
  const { name } = transition.state.phase;
  log(transition, 'info', `Told to ${command}.`);
  if (command === 'stop') {
    change(transition, { operator: 'stop' });
    if (name === 'finished') return stopNow(transition);
  } else {
    const paused = command === 'pause';
    change(transition, { operator: paused ? 'pause' : 'run' });
    transition.effects.push({ type: 'storePaused', paused });
  }
  // Where no plan is in force nothing has to end first.
  const idle = name === 'waiting' || name === 'paused' || name === 'diverged' || isPlanningAnew(transition.state);
  if (!idle) return considerInterruption(transition);
  forgive(transition);
  const reason = `the operator ${COMMANDED[command]}`;
  if (name === 'diverged') planOn(transition, reason);
  else planAnew(transition, reason);
}

function sentBack(
  transition: Transition,
  { toStep, reason, lossScale, earned, time }: Extract<CoordinatorEvent, { type: 'sentBack' }>,
) {
  const { phase, committedSteps, config } = transition.state;
  if (toStep >= committedSteps) return;
  const savedLossScale = savedScale(config, lossScale);
  change(transition, { newestCheckpointStep: toStep, savedLossScale, unsaved: earned, ...(time && { budget: time }) });
  // A finished run trains again from that checkpoint, with the donors that are still connected.
  if (phase.name === 'finished') change(transition, { phase: { name: 'paused' } });
  forgive(transition);
  planAnew(transition, reason);
}

function expire(transition: Transition) {
  const { phase } = transition.state;
  if ('deadline' in phase && phase.deadline !== null && transition.now >= phase.deadline) expirePhase(transition);
  else if ('lookAt' in phase && transition.now >= phase.lookAt) look(transition, phase);
  lateToWarmUp(transition);
  lateAudits(transition);
  bringBack(transition);
}

/** Before it is late: whoever holds the others up, by what they say of it, goes. */
function look(transition: Transition, phase: Training | Preparing | Evaluating | Saving | AwaitingCheckpoint) {
  const { now } = transition;
  if (phase.name === 'training') {
    const missing = lateIn(phase);
    const stuck = missing.length > 0 ? stuckIn(phase, now) : [];
    if (stuck.length > 0) return overdue(transition, reportersOf(phase.inForce.duties), missing, stuck);
    if (missing.length > 0 && lookAtRelay(transition, phase)) return;
  } else if (phase.name === 'preparing') {
    if (lookAtRelay(transition, phase)) return;
  } else if (phase.name === 'evaluating') {
    const owing = lateIn(phase);
    const stuck = stuckInEvaluation(phase, owing, now);
    if (stuck !== null) return overdue(transition, owing, owing, [stuck]);
    if (owing.length > 0 && lookAtRelay(transition, phase)) return;
  } else {
    const pending = awaited(transition, phase);
    const owing = pending ? uploadsMissing(pending) : [];
    const behind = stuckBehind(phase, transition.state.committedSteps - 1, owing, now);
    const stuck = behind.length > 0 || !pending ? behind : silentUploads(transition, phase, pending);
    if (stuck.length > 0) return overdue(transition, owing, owing, stuck);
  }
  change(transition, { phase: { ...phase, lookAt: now + LOOK_AGAIN_MS } });
}

const awaited = (transition: Transition, { name }: Saving | AwaitingCheckpoint) =>
  name === 'saving' ? pendingNow(transition) : awaitedCheckpoint(transition);

function expirePhase(transition: Transition) {
  const { phase } = transition.state;
  switch (phase.name) {
    case 'preparing':
      return lateArrival(transition, phase);
    case 'training': {
      const missing = lateIn(phase);
      if (missing.length > 0) return lateStep(transition, phase, missing);
      return withoutLateCopies(transition, phase);
    }
    case 'evaluating':
      return lateEvaluation(transition, phase, lateIn(phase));
    case 'holding':
    case 'saving': {
      if (phase.name === 'holding' && phase.awaits !== 'checkpoint') return;
      const pending = awaited(transition, phase);
      const lost = pending === undefined ? [] : withoutWaiting(phase, uploadsMissing(pending));
      if (pending !== undefined && lost.length === 0 && isPrimaryCompared(pending))
        return change(transition, { phase: { ...phase, deadline: transition.now + LOOK_AGAIN_MS } });
      if (pending !== undefined && lost.length === 0) return considerCheckpoint(transition, true);
      const reason = `${lost.join(', ')} did not upload in time`;
      dismiss(transition, lost, reason);
      return planOn(transition, reason);
    }
    case 'returning':
      return missedReturn(transition, phase);
    case 'waiting':
    case 'planning':
    case 'paused':
    case 'finished':
    case 'diverged':
    case 'stopped':
      return;
    default:
      assertNever(phase);
  }
}

/** Something the pages show is another now; a report alone is not shown. */
function showsMore(before: CoordinatorState, after: CoordinatorState): boolean {
  const shown = ['donors', 'operator', 'epoch', 'proposal', 'ask'] as const;
  if (shown.some((field) => before[field] !== after[field])) return true;
  if (before.phase.name !== 'training' || after.phase.name !== 'training') return before.phase !== after.phase;
  return before.phase.step !== after.phase.step;
}
