/**
 * What a donor says, judged against the state. A word about an older epoch or step was true when it was said and is
 * passed over; a word that nobody can have asked for is a broken page, which is refused.
 */
import { assertNever, given, invariant, type PeerId } from '../base.ts';
import { badState, dismiss, faulty, linkLost } from './blame.ts';
import { evaluationProblem, reportProblem } from './bounds.ts';
import { takeUpload } from './checkpoint.ts';
import { considerCommit, notFinite, settleDoubt } from './commit.ts';
import { considerCheckpoint } from './contested.ts';
import { withSeen } from './deadlines.ts';
import type { DonorMessage } from './events.ts';
import { isFilledBy } from './filling.ts';
import { arrived, boundary, considerInterruption, lose, planOn } from './planInForce.ts';
import { isNews, soundProgress, withProgress } from './progress.ts';
import { reportedLate } from './replicas.ts';
import { resumed } from './returning.ts';
import { type Donor, dutiesIn, type Evaluating, type PlanInForce, planInForce, stepTargets } from './state.ts';
import { membersInvolved } from './successor.ts';
import { evaluatorsOf, sumLosses } from './tally.ts';
import { change, changeDonor, donorOf, forget, log, noteVisit, refuse, send, type Transition } from './transition.ts';
import { settleLateDisputes } from './unequal.ts';
import { warmed } from './warmUp.ts';

type Said<Type extends DonorMessage['type']> = Extract<DonorMessage, { type: Type }>;

/** `chance`: that came with it. */
export function donorSaid(transition: Transition, peer: PeerId, message: DonorMessage, chance?: number) {
  const donor = donorOf(transition, peer);
  // Forgotten a moment ago; its connection is about to close.
  if (donor === undefined) return;
  switch (message.type) {
    case 'resumed':
      if (!resumed(transition, peer, message)) reject(transition, peer, 'it came back to what it had no part in');
      return;
    case 'ready':
      return onReady(transition, peer, message);
    case 'warmed':
      if (!warmed(transition, peer, message.number)) reject(transition, peer, 'it was warm for a plan unasked');
      return;
    case 'report':
      return onReport(transition, peer, message, chance);
    case 'heartbeat':
      return onHeartbeat(transition, peer, message);
    case 'evaluated':
      return onEvaluated(transition, peer, message);
    case 'uploaded':
      return onUploaded(transition, peer, message);
    case 'met': // a run of one group holds its meetings by itself
      return reject(transition, peer, 'it held a meeting unasked');
    case 'fault':
      return onFault(transition, peer, message);
    case 'pause':
    case 'resume':
    case 'leave':
      return onButton(transition, donor, message.type);
    default:
      assertNever(message);
  }
}

const has = (said: readonly { readonly peer: PeerId }[], peer: PeerId): boolean =>
  said.some((one) => one.peer === peer);

/** The plan that a message about this epoch is to be held against; old: nothing depends on it any more. */
function planFor(transition: Transition, peer: PeerId, epoch: number): PlanInForce | 'old' | 'wrong' {
  const inForce = planInForce(transition.state);
  if (epoch > (inForce?.epoch ?? transition.state.epoch)) return 'wrong';
  if (inForce === null || epoch < inForce.epoch) return 'old';
  return dutiesIn(inForce, peer) ? inForce : 'wrong';
}

function onReady(transition: Transition, peer: PeerId, { epoch }: Said<'ready'>) {
  const inForce = planFor(transition, peer, epoch);
  if (inForce === 'old') return;
  const { phase } = transition.state;
  if (inForce === 'wrong' || phase.name !== 'preparing' || !phase.waitingFor.includes(peer)) {
    return reject(transition, peer, `ready for epoch ${epoch} was not asked for`);
  }
  const waitingFor = phase.waitingFor.filter((other) => other !== peer);
  const what = phase.isWarm ? 'handOver' : 'gettingReady';
  const seen = withSeen(transition.state.seen, what, transition.now - phase.startedAt);
  change(transition, { phase: { ...phase, waitingFor }, seen });
  if (waitingFor.length === 0) arrived(transition);
}

function onReport(transition: Transition, peer: PeerId, message: Said<'report'>, chance?: number) {
  const inForce = planFor(transition, peer, message.epoch);
  const { phase, committedSteps } = transition.state;
  if (inForce === 'old') return;
  if (inForce !== 'wrong' && message.step < committedSteps) return onLateReport(transition, inForce, peer, message);
  if (inForce === 'wrong' || phase.name !== 'training' || message.step !== phase.step || has(phase.reports, peer)) {
    return reject(transition, peer, `a report of step ${message.step} in epoch ${message.epoch} was not asked for`);
  }
  const duties = dutiesIn(inForce, peer);
  const elapsedMs = transition.now - phase.startedAt;
  const bounds = { ...inForce, targets: stepTargets(transition.state.config), elapsedMs };
  const problem = duties ? reportProblem(duties, message, bounds) : null;
  if (problem !== null) return faulty(transition, peer, problem);
  const after = { ...phase, reports: [...phase.reports, { peer, report: message, ...given({ chance }) }] };
  change(transition, { phase: after });
  considerCommit(transition, after);
}

/** What it says of itself while a step takes long. */
function onHeartbeat(transition: Transition, peer: PeerId, { at: said }: Said<'heartbeat'>) {
  const { phase } = transition.state;
  if (!said || !('progress' in phase)) return;
  const at = soundProgress(phase, peer, said);
  if (!isNews(phase, peer, at, transition.now)) return;
  const stood = withProgress(phase, peer, at, transition.now);
  change(transition, { phase: stood.phase });
  if (!stood.isProven) return;
  const reason = `${peer} says that it reported step ${at.step}, and did not`;
  log(transition, 'warn', `${reason}.`);
  dismiss(transition, [peer], reason);
  planOn(transition, reason);
}

/** Its step is committed without it: what it keeps may be as good as its primary's all the same. */
function onLateReport(transition: Transition, inForce: PlanInForce, peer: PeerId, message: Said<'report'>) {
  const { phase } = transition.state;
  const duties = dutiesIn(inForce, peer);
  if (!('inForce' in phase) || !duties || inForce.lacking.length === 0) return;
  const targets = stepTargets(transition.state.config);
  const bounds = { ...inForce, targets, elapsedMs: Number.POSITIVE_INFINITY };
  const problem = reportProblem(duties, message, bounds);
  if (problem !== null) return faulty(transition, peer, problem);
  const after = { ...phase, inForce: reportedLate(inForce, peer, message) };
  change(transition, { phase: after });
  if (settleLateDisputes(transition, inForce, peer, message)) return;
  if (after.name === 'training') considerCommit(transition, after);
}

function onEvaluated(transition: Transition, peer: PeerId, message: Said<'evaluated'>) {
  const inForce = planFor(transition, peer, message.epoch);
  const { phase, committedSteps, config } = transition.state;
  if (inForce === 'old' || message.step < committedSteps) return;
  if (
    inForce === 'wrong' ||
    phase.name !== 'evaluating' ||
    message.step !== committedSteps ||
    has(phase.answers, peer)
  ) {
    return reject(
      transition,
      peer,
      `an evaluation after ${message.step} steps in epoch ${message.epoch} was not asked for`,
    );
  }
  if (!inForce.isChecked && !evaluatorsOf(inForce.plan).includes(peer))
    return reject(transition, peer, 'only the last stage knows an evaluation');
  const duties = dutiesIn(inForce, peer);
  const targets = (config.evaluation?.windows ?? 0) * config.batch.sequence;
  const problem = duties ? evaluationProblem(duties, message, targets) : null;
  if (problem !== null) return faulty(transition, peer, problem);
  const after = { ...phase, answers: [...phase.answers, { peer, evaluated: message }] };
  change(transition, { phase: after });
  considerEvaluation(transition, after);
}

function considerEvaluation(transition: Transition, phase: Evaluating) {
  const { inForce, answers } = phase;
  if (evaluatorsOf(inForce.plan).some((peer) => !has(answers, peer))) return;
  const { config, committedSteps: step } = transition.state;
  invariant(config.evaluation !== null, 'only a run with held-out text is evaluated');
  const { windows, counted = windows * config.batch.sequence } = config.evaluation;
  const loss = sumLosses(answers.map(({ evaluated }) => evaluated)) / counted;
  if (!Number.isFinite(loss)) return notFinite(transition, phase, 'loss');
  settleDoubt(transition, { of: 'evaluation', step });
  change(transition, { evaluatedSteps: step, evaluationLoss: loss });
  transition.effects.push({ type: 'storeEvaluation', committedSteps: step, loss });
  boundary(transition);
}

function onUploaded(transition: Transition, peer: PeerId, message: Said<'uploaded'>) {
  const outcome = takeUpload(transition, peer, message);
  if (outcome === 'wrong') return reject(transition, peer, `an upload of checkpoint ${message.step} was not asked for`);
  if (outcome === 'taken') considerCheckpoint(transition);
}

function onFault(transition: Transition, peer: PeerId, { epoch, reason, about, detail }: Said<'fault'>) {
  if (reason === 'deviceLost') {
    forget(transition, peer);
    return lose(transition, peer, `${peer} lost its GPU`);
  }
  const inForce = planInForce(transition.state);
  if (epoch > (inForce?.epoch ?? transition.state.epoch))
    return reject(transition, peer, `a fault of epoch ${epoch}, which has not begun`);
  if (inForce === null || epoch < inForce.epoch) return;
  // Who hands its state over without a part of its own has a say in it, until it is let go: the word of that may cross.
  if (!membersInvolved(transition.state).includes(peer)) return;
  if (reason === 'outOfMemory') {
    refuse(transition, peer, 'faulty', detail);
    return lose(transition, peer, `${peer} has not enough memory`);
  }
  const what = reason === 'linkLost' && about !== undefined ? `the link to ${about} was lost` : reason;
  const text = `${peer}: ${what}${detail === '' ? '' : `: ${detail}`}`;
  // The step is committed already: only the uploads are needed, and they have a deadline.
  if (transition.state.phase.name === 'saving') return log(transition, 'warn', text);
  const { phase } = transition.state;
  const isAnother = about !== undefined && about !== peer && membersInvolved(transition.state).includes(about);
  const isHandOver = phase.name === 'preparing' && phase.source.from === 'peers';
  const isGiven = isHandOver || isFilledBy(inForce, peer, about);
  if (isAnother && reason === 'linkLost') linkLost(transition, peer, about, text);
  else if (isAnother && reason === 'badFrame' && isGiven) badState(transition, peer, about, text);
  else faulty(transition, peer, text);
}

function onButton(transition: Transition, { peer, wish }: Donor, button: 'pause' | 'resume' | 'leave') {
  if (button === 'resume') {
    if (wish === 'paused' || wish === 'pausing') changeDonor(transition, peer, { wish: 'compute' });
  } else if (membersInvolved(transition.state).includes(peer)) {
    noteVisit(transition, peer);
    changeDonor(transition, peer, { wish: button === 'leave' ? 'leaving' : 'pausing' });
  } else if (button === 'pause') {
    changeDonor(transition, peer, { wish: 'paused' });
    send(transition, [peer], { type: 'standby', state: 'paused' });
  } else {
    send(transition, [peer], { type: 'standby', state: 'left' });
    forget(transition, peer);
  }
  considerInterruption(transition);
}

/** Nobody asked for this word: the page is broken, and what it holds cannot be trusted. */
function reject(transition: Transition, peer: PeerId, detail: string) {
  refuse(transition, peer, 'outOfOrder', detail);
  lose(transition, peer, `${peer} said what nobody asked for`);
}
