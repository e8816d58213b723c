/** The runs of this server, as its store has them. */
import { type RunList, runListSchema } from '../../../swarm/run/runDraft.ts';
import { useAnswer } from './api.ts';
import type { OperatorState } from './state.ts';

const NO_LIST: RunList = {
  ...{ runs: [], texts: [], canActivate: false, canBeside: false, queue: [] },
  hub: { url: '', clientId: null },
};

/** `version`: another one asks again. */
export const useRuns = (version: unknown): readonly [RunList, () => void] =>
  useAnswer('/api/operator/runs', runListSchema, NO_LIST, version);

/** Another number where a run's checkpoints may be others. */
export const checkpointsVersion = ({ events }: OperatorState): number | undefined =>
  events.findLast(({ kind }) => kind === 'checkpoint' || kind === 'rollBack')?.id;
