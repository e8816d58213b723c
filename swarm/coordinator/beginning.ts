/** What a coordinator knows at first, of what its store says. */
import { FIRST_LOSS_SCALE, type LossScale } from '../precision.ts';
import { NO_AUDITS } from './audits.ts';
import { timeAtStart } from './budget.ts';
import { NOTHING_SEEN } from './deadlines.ts';
import type { CoordinatorConfig, StartState } from './events.ts';
import type { CoordinatorState } from './state.ts';
import { isDone } from './stepsAhead.ts';
import { NO_ATTEMPTS } from './trouble.ts';
import { NO_VISITS } from './visits.ts';

/** Donors may come back with more than the newest checkpoint has. */
export const hasUnsaved = ({ committedSteps, newestCheckpointStep, plans, apart }: StartState): boolean =>
  committedSteps > newestCheckpointStep && (plans.length > 0 || apart !== undefined);

export function begin(config: CoordinatorConfig, start: StartState): CoordinatorState {
  const { operatorPaused, plans, credit, applied, recorded: _, time, ...stored } = start;
  const isAhead = hasUnsaved(start);
  const isWaitedFor = isAhead || (plans.length > 0 && config.expectedDonors === null && !operatorPaused);
  const state: CoordinatorState = {
    ...stored,
    ...timeAtStart(config, time, stored.committedSteps),
    met: stored.newestCheckpointStep,
    turn: null,
    outcome: null,
    isSavedFirst: false,
    operator: operatorPaused ? 'pause' : 'run',
    gathering: config.expectedDonors === null ? 'over' : 'open',
    held: 'none',
    proposal: null,
    warmingUp: null,
    ask: null,
    asks: 0,
    warmUps: 0,
    departures: null,
    ...{ visits: NO_VISITS, committedMs: null },
    donors: [],
    phase: { name: 'waiting', lack: { of: 'firstDonor' } },
    pending: [],
    attempts: NO_ATTEMPTS,
    seen: NOTHING_SEEN,
    faults: [],
    relayed: [],
    sightings: [],
    relayedSlices: [],
    doubt: null,
    lossScale: savedScale(config, (isAhead ? applied?.lossScale : null) ?? start.savedLossScale),
    savedLossScale: savedScale(config, start.savedLossScale),
    newestSteps: [],
    ...(config.audit && { audits: NO_AUDITS }),
  };
  if (isDone(state)) return { ...state, phase: { name: 'finished' } };
  if (isWaitedFor) {
    return {
      ...state,
      phase: { name: 'returning', plans, credit, stale: applied?.stale ?? [], back: [], since: null, deadline: null },
    };
  }
  return operatorPaused ? { ...state, phase: { name: 'paused' } } : state;
}

/** What a run goes on with from a checkpoint that has this loss scale, or none. */
export const savedScale = ({ compute }: CoordinatorConfig, inCheckpoint: LossScale | null): LossScale | null =>
  compute === 'f16' ? (inCheckpoint ?? FIRST_LOSS_SCALE) : null;
