/** How far a run is: what comes next at a boundary, and what is done. Pure questions about a state. */
import { endsRoundOf, nextStep, roundEnd, roundLength } from '../islands/rounds.ts';
import type { CoordinatorConfig } from './events.ts';
import type { CoordinatorState } from './state.ts';

/** An evaluation belongs to this boundary, and is not stored yet. */
export function evaluationDue(state: CoordinatorState): boolean {
  const { config, committedSteps, evaluatedSteps } = state;
  if (config.evaluation === null || evaluatedSteps === committedSteps || !hasMet(state)) return false;
  return committedSteps % config.evaluation.everySteps === 0 || committedSteps >= config.steps;
}

/** With several groups: nothing is committed since their last meeting. */
const hasMet = ({ config, committedSteps, met }: CoordinatorState): boolean =>
  config.own === undefined || committedSteps === met;

/** All steps of the run are committed. */
export const areAllCommitted = (state: CoordinatorState): boolean =>
  hasMet(state) && state.committedSteps >= state.config.steps;

/** The count of the next step; null: one of several groups has ended its round, and a meeting comes first. */
export const nextStepOf = ({ config, committedSteps, met }: CoordinatorState): number | null =>
  config.own !== undefined && committedSteps === roundEnd(config.train, met)
    ? null
    : nextStep(config.train, committedSteps, config.own);

/** Of this group's donors. */
export const isLastStep = ({ config: { steps, train, own } }: CoordinatorState, step: number): boolean =>
  own === undefined ? step === steps - 1 : roundEnd(train, step) >= steps && endsRoundOf(train, step, own);

/** Every step is committed, saved and, where it should be, evaluated. */
export const isDone = (state: CoordinatorState): boolean =>
  areAllCommitted(state) && state.newestCheckpointStep === state.committedSteps && !evaluationDue(state);

/** So many committed steps may stand beyond the newest checkpoint: those between two, and half as many while it is on its way. */
export const unsavedLimit = ({ checkpointEverySteps: every, train }: CoordinatorConfig): number =>
  every + Math.max(roundLength(train), Math.floor(every / 2));
