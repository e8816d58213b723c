/** What one of several groups does when all of them have come as far. */
import { invariant } from '../base.ts';
import { checkpointStored } from './checkpoint.ts';
import type { CoordinatorEvent } from './events.ts';
import { askForCheckpoint, boundary, considerInterruption, proceed } from './planInForce.ts';
import { takeIn } from './takingIn.ts';
import { change, forgive, type Transition } from './transition.ts';

/** All groups have met, or (`isBeside`) begun to. */
export function met(
  transition: Transition,
  { committedSteps, saved, turn, isBeside }: Extract<CoordinatorEvent, { type: 'met' }>,
) {
  const { phase } = transition.state;
  invariant(phase.name === 'holding', 'all groups stand when they have met');
  change(transition, {
    committedSteps,
    met: committedSteps,
    isSavedFirst: saved === 'elsewhere' ? saved : saved === 'first',
    turn: turn ?? null,
    outcome: isBeside ? 'awaited' : null,
  });
  forgive(transition);
  if (saved === 'beside') askForCheckpoint(transition, phase.inForce);
  boundary(transition);
}

/** The meeting that was held beside the steps is over. */
export function cameOf(transition: Transition, { round }: Extract<CoordinatorEvent, { type: 'cameOf' }>) {
  change(transition, { outcome: { round } });
  const { phase } = transition.state;
  if (phase.name === 'holding') return boundary(transition);
  if (phase.name !== 'planning' || phase.before === null) return;
  takeIn(transition, phase.before);
  proceed(transition);
}

/** It does this number next: where it stands and waits for one, now. */
export function given(transition: Transition, { number }: Extract<CoordinatorEvent, { type: 'given' }>) {
  const { phase, turn } = transition.state;
  invariant(turn !== null, 'a number is given where rounds are recorded');
  change(transition, { turn: { ...turn, numbers: [...turn.numbers, number] } });
  if (phase.name === 'holding' && phase.awaits === 'groups') boundary(transition);
}

/** All groups have saved. */
export function allSaved(transition: Transition, { step, lossScale }: Extract<CoordinatorEvent, { type: 'allSaved' }>) {
  checkpointStored(transition, step, lossScale);
  if (step === transition.state.met) change(transition, { isSavedFirst: false });
  const { name } = transition.state.phase;
  if (name === 'saving' || name === 'holding') boundary(transition);
  else considerInterruption(transition);
}
