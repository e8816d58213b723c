/** What came of a meeting that was held beside the steps is in the state from the next step on. */
import { isRecorded, roundEnd } from '../islands/rounds.ts';
import { membersOf, type PlanInForce } from './state.ts';
import { nextStepOf } from './stepsAhead.ts';
import { change, send, type Transition } from './transition.ts';

/** At a boundary: its donors are told, where it is over. */
export function takeIn(transition: Transition, inForce: PlanInForce) {
  const { outcome, committedSteps, config, met } = transition.state;
  if (outcome === null || outcome === 'awaited') return;
  const { train } = config;
  const end = nextStepOf(transition.state) ?? (isRecorded(train) ? committedSteps : roundEnd(train, met));
  const { epoch } = inForce;
  send(transition, membersOf(inForce), { type: 'meetingOver', epoch, round: outcome.round, end, beside: true });
  change(transition, { outcome: null });
}
