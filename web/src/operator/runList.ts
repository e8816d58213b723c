/** The runs of this server, as its store has them. */
import { type RunList, runListSchema } from '../../../swarm/run/runDraft.ts';
import { useAnswer } from './api.ts';

const NO_LIST: RunList = { runs: [], texts: [], canActivate: false, canBeside: false, queue: [] };

/** `version`: another one asks again. */
export const useRuns = (version: unknown): readonly [RunList, () => void] =>
  useAnswer('/api/operator/runs', runListSchema, NO_LIST, version);
