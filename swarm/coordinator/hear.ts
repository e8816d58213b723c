/**
 * What a donor says, judged against the state. A word about an older epoch or step was true when it was said and is
 * passed over; a word that nobody can have asked for is a broken page, which is refused.
 */
import { assertNever, type PeerId } from '../base.ts';
import { takeUpload } from './checkpoint.ts';
import { considerCommit, faulty, notFinite } from './commit.ts';
import { arrived, boundary, considerInterruption, lose } from './course.ts';
import type { DonorMessage } from './events.ts';
import { type Course, courseOf, type Donor, dutiesIn, type Evaluating } from './state.ts';
import { membersInvolved } from './successor.ts';
import { evaluatorsOf, reportProblem, sumLosses } from './tally.ts';
import { change, changeDonor, donorOf, forget, log, refuse, send, type Turn } from './turn.ts';

type Said<Type extends DonorMessage['type']> = Extract<DonorMessage, { type: Type }>;

export function hear(turn: Turn, peer: PeerId, message: DonorMessage) {
  const donor = donorOf(turn, peer);
  // Forgotten a moment ago; its connection is about to close.
  if (donor === undefined) return;
  switch (message.type) {
    case 'ready':
      return hearReady(turn, peer, message);
    case 'report':
      return hearReport(turn, peer, message);
    case 'evaluated':
      return hearEvaluated(turn, peer, message);
    case 'uploaded':
      return hearUploaded(turn, peer, message);
    case 'fault':
      return hearFault(turn, peer, message);
    case 'pause':
    case 'resume':
    case 'leave':
      return hearButton(turn, donor, message.type);
    default:
      assertNever(message);
  }
}

const has = (said: readonly { readonly peer: PeerId }[], peer: PeerId): boolean =>
  said.some((one) => one.peer === peer);

/** The course that a message about this epoch is to be held against; old: nothing depends on it any more. */
function courseFor(turn: Turn, peer: PeerId, epoch: number): Course | 'old' | 'wrong' {
  if (epoch > turn.state.epoch) return 'wrong';
  const course = courseOf(turn.state);
  if (course === null || epoch < course.epoch) return 'old';
  return dutiesIn(course, peer) ? course : 'wrong';
}

function hearReady(turn: Turn, peer: PeerId, { epoch }: Said<'ready'>) {
  const course = courseFor(turn, peer, epoch);
  if (course === 'old') return;
  const { phase } = turn.state;
  if (course === 'wrong' || phase.name !== 'preparing' || !phase.waitingFor.includes(peer)) {
    return reject(turn, peer, `ready for epoch ${epoch} was not asked for`);
  }
  const waitingFor = phase.waitingFor.filter((other) => other !== peer);
  change(turn, { phase: { ...phase, waitingFor } });
  if (waitingFor.length === 0) arrived(turn);
}

function hearReport(turn: Turn, peer: PeerId, message: Said<'report'>) {
  const course = courseFor(turn, peer, message.epoch);
  const { phase, committedSteps } = turn.state;
  if (course === 'old' || message.step < committedSteps) return;
  if (course === 'wrong' || phase.name !== 'training' || message.step !== phase.step || has(phase.reports, peer)) {
    return reject(turn, peer, `a report of step ${message.step} in epoch ${message.epoch} was not asked for`);
  }
  const duties = dutiesIn(course, peer);
  const problem = duties ? reportProblem(duties, message) : null;
  if (problem !== null) return faulty(turn, peer, problem);
  const after = { ...phase, reports: [...phase.reports, { peer, report: message }] };
  change(turn, { phase: after });
  considerCommit(turn, after);
}

function hearEvaluated(turn: Turn, peer: PeerId, message: Said<'evaluated'>) {
  const course = courseFor(turn, peer, message.epoch);
  const { phase, committedSteps } = turn.state;
  if (course === 'old' || message.step < committedSteps) return;
  if (
    course === 'wrong' ||
    phase.name !== 'evaluating' ||
    message.step !== committedSteps ||
    has(phase.answers, peer)
  ) {
    return reject(turn, peer, `an evaluation after ${message.step} steps in epoch ${message.epoch} was not asked for`);
  }
  if (!evaluatorsOf(course.plan).includes(peer)) return reject(turn, peer, 'only the last stage knows an evaluation');
  const after = { ...phase, answers: [...phase.answers, { peer, evaluated: message }] };
  change(turn, { phase: after });
  considerEvaluation(turn, peer, after);
}

function considerEvaluation(turn: Turn, newest: PeerId, { course, answers }: Evaluating) {
  if (evaluatorsOf(course.plan).some((peer) => !has(answers, peer))) return;
  const { config, committedSteps } = turn.state;
  const all = answers.map(({ evaluated }) => evaluated);
  const ids = all.flatMap(({ losses }) => losses.map(({ microBatch }) => microBatch));
  if (new Set(ids).size !== ids.length) return faulty(turn, newest, 'the evaluation has a micro-batch twice');
  const loss = sumLosses(all) / ((config.evaluation?.windows ?? 0) * config.batch.sequence);
  if (!Number.isFinite(loss)) return notFinite(turn, `The evaluation after ${committedSteps} steps`, 'its loss');
  change(turn, { evaluatedSteps: committedSteps, evaluationLoss: loss });
  turn.effects.push({ type: 'storeEvaluation', committedSteps, loss });
  boundary(turn);
}

function hearUploaded(turn: Turn, peer: PeerId, message: Said<'uploaded'>) {
  const outcome = takeUpload(turn, peer, message);
  if (outcome === 'wrong') return reject(turn, peer, `an upload of checkpoint ${message.step} was not asked for`);
  if (outcome !== 'whole') return;
  if (turn.state.phase.name === 'saving') return boundary(turn);
  considerInterruption(turn);
}

function hearFault(turn: Turn, peer: PeerId, { epoch, reason, about, detail }: Said<'fault'>) {
  if (reason === 'deviceLost') {
    forget(turn, peer);
    return lose(turn, peer, `${peer} lost its GPU`);
  }
  const course = courseFor(turn, peer, epoch);
  if (course === 'old') return;
  if (course === 'wrong') return reject(turn, peer, `a fault of epoch ${epoch}, in which it has no part`);
  if (reason === 'outOfMemory') {
    refuse(turn, peer, 'faulty', detail);
    return lose(turn, peer, `${peer} has not enough memory`);
  }
  const text = `${peer}: ${reason}${about === undefined ? '' : ` about ${about}`}. ${detail}`;
  // The step is committed already: only the uploads are needed, and they have a deadline.
  if (turn.state.phase.name === 'saving') return log(turn, 'warn', text);
  const isAnother = reason === 'linkLost' && about !== undefined && dutiesIn(course, about) !== undefined;
  if (isAnother && !donorOf(turn, peer)?.hasBlamed) faulty(turn, about, text, peer);
  else faulty(turn, peer, text);
}

function hearButton(turn: Turn, { peer, wish }: Donor, button: 'pause' | 'resume' | 'leave') {
  if (button === 'resume') {
    if (wish === 'paused' || wish === 'pausing') changeDonor(turn, peer, { wish: 'compute' });
  } else if (membersInvolved(turn.state).includes(peer)) {
    changeDonor(turn, peer, { wish: button === 'leave' ? 'leaving' : 'pausing' });
  } else if (button === 'pause') {
    changeDonor(turn, peer, { wish: 'paused' });
    send(turn, [peer], { type: 'standby', state: 'paused' });
  } else {
    send(turn, [peer], { type: 'standby', state: 'left' });
    forget(turn, peer);
  }
  considerInterruption(turn);
}

/** Nobody asked for this word: the page is broken, and what it holds cannot be trusted. */
function reject(turn: Turn, peer: PeerId, detail: string) {
  log(turn, 'warn', `${peer} is refused: ${detail}.`);
  refuse(turn, peer, 'outOfOrder', detail);
  lose(turn, peer, `${peer} said what nobody asked for`);
}
