/**
 * Plans are made elsewhere, and take a while: the coordinator asks for one as soon as it could use it, steps go on
 * meanwhile, and what came back is used at the next boundary. Where nothing can go on without a plan, it waits in `planning`.
 */

import { DEPARTURES } from './deadlines.ts';
import type { PlanAnswer, Proposal } from './events.ts';
import { considerInterruption, proceed, sendSpare } from './planInForce.ts';
import { planInForce } from './state.ts';
import { givingState, isSameQuestion, membersInvolved, questionOf } from './successor.ts';
import { change, type Transition } from './transition.ts';

/** After every event: where the plan that is wanted is another one than was asked for, it is asked for now. */
export function ask(transition: Transition) {
  const { ask: asked, asks: number, departures } = transition.state;
  if (departures !== null && transition.now >= departures.untilMs) change(transition, { departures: null });
  const question = questionOf(transition.state);
  if (question === null) {
    if (asked !== null) change(transition, { ask: null });
    return;
  }
  if (asked !== null && isSameQuestion(asked, question)) return;
  if (question.purpose === 'now' && transition.state.departures !== null) return;
  change(transition, { ask: { ...question, number, answer: null }, asks: number + 1 });
  const { state } = transition;
  const inForce = (planInForce(state) ?? givingState(state))?.plan ?? null;
  transition.effects.push({ type: 'planWanted', ask: number, ...question, inForce });
}

/** One is gone; where several are left, more may follow, and one plan is made for all of them. */
export function departed(transition: Transition) {
  const { state, now } = transition;
  const sinceMs = state.departures?.sinceMs ?? now;
  const untilMs = Math.min(sinceMs + DEPARTURES.mostMs, now + DEPARTURES.quietMs);
  change(transition, { departures: state.donors.length > 1 ? { sinceMs, untilMs } : null });
}

const withoutTag = ({ answer: _, ...proposal }: Extract<PlanAnswer, { answer: 'plan' }>): Proposal => proposal;

/** An answer to an older question is passed over: the donors at hand are others by now. */
export function planned(transition: Transition, number: number | null, answer: PlanAnswer) {
  const { ask: asked, phase } = transition.state;
  if (number !== null) {
    if (asked?.number !== number || asked.answer !== null) return;
    change(transition, { ask: { ...asked, answer } });
    if (phase.name === 'planning') return proceed(transition);
    if (asked.purpose === 'departure') return considerInterruption(transition);
  }
  const inForce = planInForce(transition.state);
  // A plan that copies are made for is not what is planned next: that is known already.
  if (inForce === null || (number === null && inForce.filling !== null)) return;
  const isPlan = answer.answer === 'plan';
  change(transition, { proposal: isPlan ? withoutTag(answer) : null });
  // Who is handing over is needed until the others are ready.
  if (!isPlan) sendSpare(transition, new Set(membersInvolved(transition.state)));
  considerInterruption(transition);
}
