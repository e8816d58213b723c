/**
 * A run that ends with its time: how much of it is used, at which share of it each step was given out, and which step is the
 * last. Only the time of steps counts, also of those that are given up; a step that is done again has its share again.
 */
import type { CommitRecord, CoordinatorConfig, TimeUsed } from './events.ts';
import type { CoordinatorState } from './state.ts';

const secondsOf = ({ train }: CoordinatorConfig): number | null => train.budget?.seconds ?? null;

/** What a store says of a run's time, and of how many steps it is the end. */
export function timeAtStart(config: CoordinatorConfig, stored: TimeUsed | undefined, committedSteps: number) {
  const seconds = secondsOf(config);
  if (seconds === null) return { budget: null, config };
  const budget: TimeUsed = stored ?? { usedMs: 0, shares: {} };
  // Keys that are whole numbers stand in their order.
  const given = Math.max(committedSteps, Number(Object.keys(budget.shares).at(-1) ?? -1) + 1);
  const isOver = given > 0 && budget.usedMs >= 1_000 * seconds;
  return { budget, config: isOver ? { ...config, steps: Math.min(config.steps, given) } : config };
}

/** As the state goes from a step to what comes next: the time that it took is used. */
export function timeAfter(before: CoordinatorState, after: CoordinatorState, now: number): CoordinatorState {
  if (after.budget === null || before.phase.name !== 'training') return after;
  const { startedAt } = before.phase;
  if (after.phase.name === 'training' && after.phase.startedAt === startedAt) return after;
  const usedMs = after.budget.usedMs + Math.max(0, now - startedAt);
  return { ...after, budget: { ...after.budget, usedMs } };
}

/** With the step in progress. */
export const usedMsAt = ({ budget, phase }: CoordinatorState, now: number): number =>
  (budget?.usedMs ?? 0) + (phase.name === 'training' ? Math.max(0, now - phase.startedAt) : 0);

/** What is known once this step is given out. */
export function givenOut(state: CoordinatorState, step: number, now: number): Pick<CoordinatorState, 'budget'> {
  const { budget, config, newestCheckpointStep } = state;
  const seconds = secondsOf(config);
  if (budget === null || seconds === null) return { budget };
  const kept = Object.entries(budget.shares).filter(([one]) => Number(one) >= newestCheckpointStep);
  const share = budget.shares[step] ?? usedMsAt(state, now) / (1_000 * seconds);
  return { budget: { ...budget, shares: { ...Object.fromEntries(kept), [step]: share } } };
}

/** Of a step that is committed. */
export function shareOf({ budget }: CoordinatorState, step: number): Pick<CommitRecord, 'share'> {
  const share = budget?.shares[step];
  return share === undefined ? {} : { share };
}

/** Once its time is over a run has the steps that it has: no other begins. */
export function endedBy(state: CoordinatorState, step: number, now: number): Pick<CoordinatorState, 'config'> {
  const { config } = state;
  const seconds = secondsOf(config);
  const isOver = seconds !== null && usedMsAt(state, now) >= 1_000 * seconds;
  return { config: isOver && config.steps > step + 1 && !isEnded(state) ? { ...config, steps: step + 1 } : config };
}

/** Its last step is known: what of them was lost is done again. */
const isEnded = ({ config }: CoordinatorState): boolean => config.steps !== config.train.steps;
