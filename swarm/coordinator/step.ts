/**
 * The coordinator: one pure function from a state, an event and the time to the next state and what is to be done about
 * it. The same function runs in the server, in tests with a clock of their own, and in a fuzzer. Rules CO in SPEC.md.
 */
import { assertNever } from '../base.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import { ask, planned } from './asking.ts';
import { awaitedCheckpoint, pendingNow, uploadsMissing } from './checkpoint.ts';
import { dismiss, overdue } from './commit.ts';
import { boundary, considerInterruption, lose, planAnew, planOn, stopNow } from './course.ts';
import type { CoordinatorEvent, Effect, OperatorCommand } from './events.ts';
import { hear } from './hear.ts';
import { type CoordinatorState, courseOf, isPlanningAnew, membersOf, nextDeadline, savedScale } from './state.ts';
import { evaluatorsOf, reportersOf } from './tally.ts';
import { change, donorOf, forget, forgive, log, send, type Turn } from './turn.ts';

export function step(before: CoordinatorState, event: CoordinatorEvent, now: number): [CoordinatorState, Effect[]] {
  const turn: Turn = { state: before, effects: [], now };
  if (before.phase.name !== 'stopped') {
    handle(turn, event);
    ask(turn);
  }
  if (showsMore(before, turn.state)) turn.effects.push({ type: 'publish' });
  return [turn.state, turn.effects];
}

function handle(turn: Turn, event: CoordinatorEvent) {
  switch (event.type) {
    case 'donorJoined':
      return joined(turn, event);
    case 'donorGone':
      return gone(turn, event);
    case 'donorSaid':
      return hear(turn, event.peer, event.message);
    case 'operatorSaid':
      return obey(turn, event.command);
    case 'sentBack':
      return sentBack(turn, event);
    case 'stepsHeld':
      change(turn, { held: event.held });
      if (turn.state.phase.name === 'holding') boundary(turn);
      return;
    case 'gatheringEnded':
      change(turn, { gathering: 'over' });
      if (turn.state.donors.length > 0) considerInterruption(turn);
      return;
    case 'planned':
      return planned(turn, event.ask, event.answer);
    case 'deadlineReached':
      return expire(turn);
    default:
      assertNever(event);
  }
}

const precisionOf = ({ halves }: AdapterProfile): string =>
  halves ? 'computes with halves' : 'has no shader-f16 and computes in f32';

function joined(turn: Turn, event: Extract<CoordinatorEvent, { type: 'donorJoined' }>) {
  const { peer, adapter, memoryBytes = null } = event;
  const { donors, phase, config } = turn.state;
  if (phase.name === 'finished') {
    turn.effects.push({ type: 'refuse', peer, reason: 'runFinished', detail: `${config.name} is finished` });
    return;
  }
  change(turn, { donors: [...donors, { peer, adapter, memoryBytes, wish: 'compute', tokens: 0, hasBlamed: false }] });
  log(turn, 'info', `${peer} joined${config.compute === 'f16' ? `: it ${precisionOf(adapter)}` : ''}.`);
  const full = (courseOf(turn.state)?.duties.length ?? 0) >= config.capacity;
  if (full) send(turn, [peer], { type: 'standby', state: 'spare', why: 'full' });
  considerInterruption(turn);
}

function gone(turn: Turn, { peer, detail }: Extract<CoordinatorEvent, { type: 'donorGone' }>) {
  if (!donorOf(turn, peer)) return;
  forget(turn, peer);
  log(turn, 'info', `${peer} is gone: ${detail}.`);
  lose(turn, peer, `${peer} is gone`);
}

function obey(turn: Turn, command: OperatorCommand) {
  const { name } = turn.state.phase;
  log(turn, 'info', `Told to ${command}.`);
  if (command === 'stop') {
    change(turn, { operator: 'stop' });
    if (name === 'finished') return stopNow(turn);
  } else {
    const paused = command === 'pause';
    change(turn, { operator: paused ? 'pause' : 'run' });
    turn.effects.push({ type: 'storePaused', paused });
  }
  // Where no plan is in force nothing has to end first.
  const idle = name === 'waiting' || name === 'paused' || name === 'failed' || isPlanningAnew(turn.state);
  if (!idle) return considerInterruption(turn);
  forgive(turn);
  planAnew(turn, `the operator said ${command}`);
}

function sentBack(turn: Turn, { toStep, lossScale, earned }: Extract<CoordinatorEvent, { type: 'sentBack' }>) {
  const { phase, committedSteps, config } = turn.state;
  if (toStep >= committedSteps) return;
  const savedLossScale = savedScale(config, lossScale);
  change(turn, { newestCheckpointStep: toStep, savedLossScale, unsaved: earned });
  // One that is over begins again with whoever is still there.
  if (phase.name === 'finished') change(turn, { phase: { name: 'paused' } });
  forgive(turn);
  planAnew(turn, `the operator sent the run back to checkpoint ${toStep}`);
}

function expire(turn: Turn) {
  const { phase } = turn.state;
  const deadline = nextDeadline(turn.state);
  if (deadline === null || turn.now < deadline) return;
  switch (phase.name) {
    case 'preparing': {
      const reason = `${phase.waitingFor.join(', ')} did not get ready in time`;
      dismiss(turn, phase.waitingFor, reason);
      return planOn(turn, reason);
    }
    case 'training': {
      const owing = reportersOf(phase.course.duties);
      const reported = phase.reports.map(({ peer }) => peer);
      const missing = owing.filter((peer) => !reported.includes(peer));
      if (missing.length > 0) return overdue(turn, owing, missing);
      // Only replicas are late: their primaries cannot commit without one.
      const replicas = membersOf(phase.course).filter((peer) => !reported.includes(peer));
      return overdue(turn, [...owing, ...replicas], replicas);
    }
    case 'evaluating': {
      const owing = evaluatorsOf(phase.course.plan);
      return overdue(
        turn,
        owing,
        owing.filter((peer) => phase.answers.every((answer) => answer.peer !== peer)),
      );
    }
    case 'holding':
    case 'saving': {
      const pending = phase.name === 'saving' ? pendingNow(turn) : awaitedCheckpoint(turn);
      const lost = pending === undefined ? [] : uploadsMissing(pending);
      const reason = `${lost.join(', ')} did not upload in time`;
      dismiss(turn, lost, reason);
      return planAnew(turn, reason);
    }
    case 'waiting':
    case 'planning':
    case 'paused':
    case 'finished':
    case 'failed':
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
