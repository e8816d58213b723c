/**
 * A step, or an evaluation, that is late: who goes for it, and who is only waiting. By what members say, those who wait
 * for another late one are not blamed. Where all do, in a circle, one of them says what is not so: what they send each
 * other goes through the server from then on, and what that sees shows who owes its part.
 */
import type { PeerId } from '../base.ts';
import { dismiss, isPair, relay, remember } from './blame.ts';
import { stillMs } from './deadlines.ts';
import type { CoordinatorEvent, Pair } from './events.ts';
import { owing as owingOf, waysOf } from './owing.ts';
import { planOn, tryAgain } from './planInForce.ts';
import { contradictions, keepingWaiting, stoodSinceMs, stuckIn } from './progress.ts';
import { type Evaluating, membersOf, type Preparing, type Training } from './state.ts';
import { membersInvolved } from './successor.ts';
import { evaluatorsOf, reportersOf } from './tally.ts';
import { change, log, type Transition } from './transition.ts';
import { rest } from './warmUp.ts';

/** Deadlines that everybody missed, one after the other, after which those have to go who kept the others waiting. */
const STALLS_LIMIT = 3;

/** All of them have to report, or to get ready, before it goes on. */
type Awaiting = Training | Preparing | Evaluating;

type Named = Extract<CoordinatorEvent, { type: 'relaySaw' }>;

/**
 * What went through the server between those whom it watches, as of now: who is shown by it to owe its part goes. What went by
 * some time ago shows nothing of who has sent its part since.
 */
export function relaySaw(transition: Transition, { type: _, epoch, ...seen }: Named) {
  const { phase: before } = transition.state;
  if (!('seen' in before) || epoch !== before.inForce.epoch) return;
  const sinceMs = before.seen?.moved === seen.moved ? before.seen.sinceMs : transition.now;
  const phase = { ...before, seen: { ...seen, sinceMs } };
  change(transition, { phase });
  if (phase.name === 'training' || phase.name === 'preparing' || phase.name === 'evaluating') judge(transition, phase);
}

function judge(transition: Transition, phase: Awaiting) {
  const { state, now } = transition;
  const { seen } = phase;
  const open = openIn(phase);
  const late = lateIn(phase);
  if (seen === null || now - seen.sinceMs < stillIn(phase) || keepingWaiting(phase, open, late).length > 0) return;
  const owing = owingOf({ state, phase, seen, open }, [...new Set(contradictions(phase, open).flat())]);
  if (owing.length > 0) overdue(transition, owing, late, owing);
}

/** Who has not answered without whom it does not go on. */
export function lateIn(phase: Awaiting): readonly PeerId[] {
  if (phase.name === 'preparing') return phase.waitingFor;
  const [owing, answers] =
    phase.name === 'training'
      ? [reportersOf(phase.inForce.duties), phase.reports]
      : [evaluatorsOf(phase.inForce.plan), phase.answers];
  return owing.filter((peer) => answers.every((one) => one.peer !== peer));
}

/** Before anyone is late. True: it was seen to. */
export function lookAtRelay(transition: Transition, phase: Awaiting): boolean {
  if (stuckInCircle(transition, phase, lateIn(phase), false)) return true;
  const { epoch, watched } = phase.inForce;
  if (watched.length > 0) transition.effects.push({ type: 'relayAsked', epoch });
  return false;
}

/** The deadline of a step passed, and these have not reported without whom there is no commit. */
export function lateStep(transition: Transition, phase: Training, missing: readonly PeerId[]) {
  const owing = reportersOf(phase.inForce.duties);
  const stuck = stuckIn(phase, transition.now);
  const kept = keepingWaiting(phase, openIn(phase), missing);
  if (stuck.length > 0 || kept.length > 0) return overdue(transition, owing, missing, stuck, kept);
  if (!stuckInCircle(transition, phase, missing)) breakCircle(transition, phase);
}

/** An answer to an evaluation is missing. */
export function lateEvaluation(transition: Transition, phase: Evaluating, missing: readonly PeerId[]) {
  const kept = keepingWaiting(phase, openIn(phase), missing);
  if (kept.length > 0) return overdue(transition, evaluatorsOf(phase.inForce.plan), missing, [], kept);
  if (!stuckInCircle(transition, phase, missing)) breakCircle(transition, phase);
}

/** The time to get ready is over. Only who waits for nobody could have; where nobody's word says for whom it waits, all. */
export function lateArrival(transition: Transition, phase: Preparing) {
  const kept = keepingWaiting(phase, phase.waitingFor, phase.waitingFor);
  if (kept.length > 0) return unready(transition, phase, kept);
  if (!stuckInCircle(transition, phase, phase.waitingFor)) breakCircle(transition, phase);
}

/**
 * Who did not get ready in time goes. Where others did not at this step before, with the same ones to hand their state
 * over who have no part in the plan, those go instead: nothing else shows that they hand anything over.
 */
function unready(transition: Transition, { inForce }: Preparing, late: readonly PeerId[]) {
  const { committedSteps, faults } = transition.state;
  const members = membersOf(inForce);
  const givers = membersInvolved(transition.state).filter((peer) => !members.includes(peer));
  const again = givers.filter((giver) =>
    faults.some(({ of, peer, step }) => of === 'handOver' && peer === giver && step === committedSteps),
  );
  for (const giver of givers) remember(transition, 'handOver', giver, null);
  const reason = `${late.join(', ')} did not get ready in time`;
  if (again.length > 0) dismiss(transition, again, `${reason}, nor had others to whom it hands its state over`);
  else dismiss(transition, late, reason);
  planOn(transition, reason);
}

/** Who has not answered; in an evaluation also who waits for others, or is not done with its part, as not everyone has an answer to give. */
function openIn(phase: Awaiting): readonly PeerId[] {
  if (phase.name === 'preparing') return phase.waitingFor;
  const members = membersOf(phase.inForce);
  if (phase.name === 'training') return members.filter((peer) => phase.reports.every((one) => one.peer !== peer));
  const evaluators = evaluatorsOf(phase.inForce.plan).filter((peer) => phase.answers.every((one) => one.peer !== peer));
  const busy = phase.progress.filter(({ at }) => at.waitsFor.length > 0 || !at.hasEvaluated).map(({ peer }) => peer);
  return members.filter((peer) => evaluators.includes(peer) || busy.includes(peer));
}

/**
 * All who are late wait for each other, or for one who says that its part is done: `isLate` false: before the deadline,
 * where they have said nothing new for long. True: it is seen to, by another epoch in which the server sees what they
 * send.
 */
function stuckInCircle(transition: Transition, phase: Awaiting, late: readonly PeerId[], isLate = true): boolean {
  const open = openIn(phase);
  if (keepingWaiting(phase, open, late).length > 0) return false;
  const isQuiet = (peer: PeerId): boolean =>
    isLate || !open.includes(peer) || transition.now - stoodSinceMs(phase, peer) >= stillIn(phase);
  const hidden = contradictions(phase, open).filter(
    (pair) => !isPair(phase.inForce.watched, ...pair) && pair.every((peer) => isQuiet(peer)),
  );
  return hidden.length > 0 && watch(transition, hidden, sentenceOf(hidden));
}

/** Where nothing moves between two for so long, it stands. */
const stillIn = (phase: Awaiting): number =>
  stillMs(phase.inForce, phase.inForce.predicted, phase.name === 'training' ? phase.halfReportedMs : null);

const sentenceOf = (pairs: readonly Pair[]): string =>
  pairs.map(([one, other]) => `${one} waits for ${other}`).join(', ');

function watch(transition: Transition, pairs: readonly Pair[], reason: string): true {
  log(transition, 'warn', `${reason}.`);
  relay(transition, pairs);
  onceMore(transition, reason);
  return true;
}

/** Who hands over may wait in the step that is to be completed first: what is kept needs no other's part of that. */
function onceMore(transition: Transition, reason: string) {
  const { phase } = transition.state;
  if (phase.name === 'preparing' && phase.source.from === 'peers') {
    const inForce = { ...phase.source.inForce, keptOnly: true };
    change(transition, { phase: { ...phase, source: { from: 'peers', inForce } } });
  }
  tryAgain(transition, reason);
}

/**
 * Late, and nothing shows whose part is lacking: what still moves has more time, then the server sees all that they send,
 * then the one who came last gives its place to others for a while. Nobody is refused.
 */
function breakCircle(transition: Transition, phase: Awaiting) {
  const { attempts, donors } = transition.state;
  const { inForce, seen } = phase;
  const open = openIn(phase);
  const against = contradictions(phase, open);
  const reason = sentenceOf(against);
  const isMoving = seen !== null && transition.now - seen.sinceMs < stillIn(phase);
  if (isMoving && attempts.stalls + 1 < STALLS_LIMIT) {
    change(transition, { attempts: { ...attempts, stalls: attempts.stalls + 1 } });
    log(transition, 'warn', `${reason}.`);
    return onceMore(transition, reason);
  }
  const hidden = waysOf(transition.state, phase).filter(
    (pair) => pair.some((peer) => open.includes(peer)) && !isPair(inForce.watched, ...pair),
  );
  if (hidden.length > 0) return void watch(transition, hidden, reason);
  const newest = donors.findLast(({ peer }) => against.flat().includes(peer));
  if (newest === undefined) return onceMore(transition, reason);
  const restsFor = rest(transition, newest.peer);
  const aside = `${reason}, and nothing shows which of them holds the others up: ${newest.peer} rests for ${restsFor}`;
  log(transition, 'warn', `${aside}.`);
  planOn(transition, aside);
}

/**
 * The deadline of a step (or of an evaluation) passed: `owing` should have answered by now, `missing` of them did not,
 * `stuck` are shown to hold the others up; `kept`: by what they say, the others only wait for these.
 */
export function overdue(
  transition: Transition,
  owing: readonly PeerId[],
  missing: readonly PeerId[],
  stuck: readonly PeerId[] = [],
  kept = missing,
) {
  if (stuck.length > 0) {
    const reason = `${stuck.join(', ')} held the step up`;
    log(transition, 'warn', `${reason}.`);
    dismiss(transition, stuck, reason);
    return planOn(transition, reason);
  }
  const { attempts, donors } = transition.state;
  // One that has the run to itself is late by itself where others could have it.
  const others = donors.filter(({ peer, wish }) => wish === 'compute' && !owing.includes(peer));
  const isAlone = owing.length === 1 && others.length > 0;
  const everybody = missing.length === owing.length && !isAlone;
  const stalls = attempts.stalls + (everybody ? 1 : 0);
  // Where everybody is late, nobody is singled out at once: one slow machine stalls a whole pipeline.
  const late = everybody ? attempts.late : [...attempts.late.filter((peer) => !owing.includes(peer)), ...kept];
  const lost = kept.filter((peer) => stalls >= STALLS_LIMIT || (!everybody && attempts.late.includes(peer)));
  change(transition, { attempts: { ...attempts, late, stalls } });
  const reason = `${kept.join(', ')} did not answer in time`;
  log(transition, 'warn', `${reason}.`);
  dismiss(transition, lost, reason);
  return lost.length > 0 ? planOn(transition, reason) : tryAgain(transition, reason);
}
