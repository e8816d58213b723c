/**
 * Plans are made elsewhere, and take a while: the coordinator asks for one as soon as it could use it, steps go on
 * meanwhile, and what came back is used at the next boundary. Where nothing can go on without a plan, it waits in `planning`.
 */
import { considerInterruption, proceed, sendSpare } from './course.ts';
import type { PlanAnswer } from './events.ts';
import { courseOf } from './state.ts';
import { isSameQuestion, membersInvolved, questionOf } from './successor.ts';
import { change, type Turn } from './turn.ts';

/** After every event: where the plan that is wanted is another one than was asked for, it is asked for now. */
export function ask(turn: Turn) {
  const { ask: asked, asks: number } = turn.state;
  const question = questionOf(turn.state);
  if (question === null) {
    if (asked !== null) change(turn, { ask: null });
    return;
  }
  if (asked !== null && isSameQuestion(asked, question)) return;
  change(turn, { ask: { ...question, number, answer: null }, asks: number + 1 });
  const inForce = courseOf(turn.state)?.plan ?? null;
  turn.effects.push({ type: 'planWanted', ask: number, ...question, inForce });
}

/** An answer to an older question is passed over: the donors at hand are others by now. */
export function planned(turn: Turn, number: number | null, answer: PlanAnswer) {
  const { ask: asked, phase } = turn.state;
  if (number !== null) {
    if (asked?.number !== number || asked.answer !== null) return;
    change(turn, { ask: { ...asked, answer } });
    if (phase.name === 'planning') return proceed(turn);
    if (asked.purpose === 'departure') return considerInterruption(turn);
  }
  if (courseOf(turn.state) === null) return;
  const isPlan = answer.answer === 'plan';
  change(turn, { proposal: isPlan ? { plan: answer.plan, reason: answer.reason } : null });
  // Who is handing over is needed until the others are ready.
  if (!isPlan) sendSpare(turn, new Set(membersInvolved(turn.state)));
  considerInterruption(turn);
}
