/** What a plan's members do next at a boundary, a step or an evaluation, and until when. Which one, planInForce.ts decides. */
import { invariant } from '../base.ts';
import { givenOut } from './budget.ts';
import { evaluationAllowedMs, stepAllowedMs } from './deadlines.ts';
import { nextCopies } from './filling.ts';
import { watchedFrom } from './progress.ts';
import { membersOf, type PlanInForce } from './state.ts';
import { countedOf, toldTurn } from './stepsAhead.ts';
import { change, send, type Transition } from './transition.ts';

/** Deadlines that everyone missed double the next one: then it was the deadline that was wrong. */
const patience = ({ state }: Transition): number => 2 ** state.attempts.stalls;

/** Its members measure the loss of held-out text. */
export function evaluate(transition: Transition, inForce: PlanInForce) {
  const { config, committedSteps } = transition.state;
  invariant(config.evaluation !== null, 'only a run with held-out text is evaluated');
  const rounds = Math.max(1, config.evaluation.windows / config.batch.samples);
  const deadline = transition.now + patience(transition) * evaluationAllowedMs(inForce, inForce.predicted, rounds);
  change(transition, { phase: { name: 'evaluating', answers: [], deadline, ...watchedFrom(inForce, transition.now) } });
  send(transition, membersOf(inForce), { type: 'evaluate', epoch: inForce.epoch, step: committedSteps });
}

/** The next step. */
export function train(transition: Transition, { filling, ...before }: PlanInForce, step: number) {
  const deadline = transition.now + patience(transition) * stepAllowedMs(before, before.predicted);
  const { lossScale } = transition.state;
  const next = nextCopies({ filling }, step);
  const inForce = { ...before, filling: next?.filling ?? filling };
  change(transition, {
    ...givenOut(transition.state, step, transition.now),
    phase: {
      ...{ name: 'training', step, reports: [], reportedMs: null, halfReportedMs: null, deadline },
      ...watchedFrom(inForce, transition.now, patience(transition)),
    },
  });
  send(transition, membersOf(inForce), {
    ...{ type: 'start', epoch: before.epoch, step },
    ...(lossScale ? { lossScale: lossScale.scale } : {}),
    ...(transition.state.config.examples && { counted: countedOf(transition.state, step) }),
    ...(next ? { copies: next.copies } : {}),
    ...toldTurn(transition.state, step),
  });
}
