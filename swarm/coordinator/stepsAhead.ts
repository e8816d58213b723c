/** How far a run is: what comes next at a boundary, and what is done. Pure questions about a state. */

import { at, type Range } from '../base.ts';
import { mostOfRound } from '../islands/giving.ts';
import { endsRoundOf, isRecorded, nextStep, roundEnd, roundLength, turnAt } from '../islands/rounds.ts';
import { countedRows, SEQUENTIAL } from '../run/data.ts';
import type { CoordinatorConfig, IslandTurn } from './events.ts';
import type { CoordinatorState } from './state.ts';

/** An evaluation belongs to this boundary, and is not stored yet. */
export function evaluationDue(state: CoordinatorState): boolean {
  const { config, committedSteps, evaluatedSteps } = state;
  if (config.evaluation === null || evaluatedSteps === committedSteps || !hasMet(state)) return false;
  const { everySteps } = config.evaluation;
  if (committedSteps >= config.steps) return true;
  return isRecorded(config.train)
    ? committedSteps - (evaluatedSteps ?? -everySteps) >= everySteps
    : committedSteps % everySteps === 0;
}

/** Which number the step of this count is, and which update of its island. */
export function turnOf({ config, met, turn }: CoordinatorState, step: number) {
  const { number, island, round, innerStep, time } = turn
    ? recordedTurn(config, turn, step - met)
    : turnAt(config.train, step);
  return { number, time, recorded: turn && { number, island, round, innerStep } };
}

/** How many of the rows of a step's samples `[from, to)` count. */
export function countedIn(state: CoordinatorState, step: number, [from, to]: Range): number {
  const { examples, batch } = state.config;
  const first = turnOf(state, step).number * batch.samples;
  const order = examples?.order ?? SEQUENTIAL;
  return countedRows(examples?.counted ?? null, order, [first + from, first + to], batch.sequence);
}

/** All of a step's rows that count. */
export const tokensOf = (state: CoordinatorState, step: number): number =>
  countedIn(state, step, [0, state.config.batch.samples]);

/** What a step's loss is a mean over: its rows that count, or its preference pairs. */
export function countedOf(state: CoordinatorState, step: number): number {
  const { samples, adapter } = state.config.batch;
  return adapter?.beta === undefined ? tokensOf(state, step) : samples;
}

/** Of how many meetings what came of them is in the values of the step in progress; nothing where rounds wait for it. */
export function tookIn(state: CoordinatorState, step: number) {
  const { config, turn, outcome } = state;
  if (!config.train.islands?.overlap) return {};
  const { round } = turn ?? turnAt(config.train, step);
  return { tookIn: outcome === null ? round : round - 1 };
}

/** What its donors are told of that; nothing where they know it. */
export function toldTurn(state: CoordinatorState, step: number) {
  const { number, time, recorded } = turnOf(state, step);
  return recorded ? { turn: { number, time } } : {};
}

function recordedTurn({ own }: CoordinatorConfig, { round, time, numbers }: IslandTurn, innerStep: number) {
  const number = at(numbers, innerStep);
  return { number, island: at(own ?? [], 0), round, innerStep, time: time + innerStep + 1 };
}

/** With several groups: nothing is committed since their last meeting. */
const hasMet = ({ config, committedSteps, met }: CoordinatorState): boolean =>
  config.own === undefined || committedSteps === met;

/** All steps of the run are committed. */
export const areAllCommitted = (state: CoordinatorState): boolean =>
  hasMet(state) && state.committedSteps >= state.config.steps;

/** The count of the next step; null: one of several groups has ended its round, and a meeting comes first. */
export const nextStepOf = ({ config, committedSteps, met, turn }: CoordinatorState): number | null => {
  if (turn !== null) return committedSteps - met < turn.numbers.length ? committedSteps : null;
  return config.own !== undefined && committedSteps === roundEnd(config.train, met)
    ? null
    : nextStep(config.train, committedSteps, config.own);
};

/** Of this group's donors. */
export const isLastStep = ({ config: { steps, train, own }, turn }: CoordinatorState, step: number): boolean =>
  turn === null &&
  (own === undefined ? step === steps - 1 : roundEnd(train, step) >= steps && endsRoundOf(train, step, own));

/** Every step is committed, saved and, where it should be, evaluated. */
export const isDone = (state: CoordinatorState): boolean =>
  areAllCommitted(state) && state.newestCheckpointStep === state.committedSteps && !evaluationDue(state);

/** So many committed steps may stand beyond the newest checkpoint: those between two, and half as many while it is on its way. */
export const unsavedLimit = ({ checkpointEverySteps: every, train }: CoordinatorConfig): number =>
  every + Math.max(isRecorded(train) ? mostOfRound(train.steps) : roundLength(train), Math.floor(every / 2));
