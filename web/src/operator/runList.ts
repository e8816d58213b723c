/** The runs of this server, as its store has them. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { type RunList, runListSchema } from '../../../swarm/run/runDraft.ts';
import { read } from './api.ts';

const NO_LIST: RunList = { runs: [], texts: [], canActivate: false, canBeside: false, queue: [] };

/** `version`: another one asks again. */
export function useRuns(version: unknown): readonly [RunList, () => void] {
  const [list, show] = useState<RunList>(NO_LIST);
  const refresh = useCallback(() => {
    void read('/api/operator/runs', runListSchema).then((answer) => {
      if (answer.ok) show(answer.value);
    });
  }, []);
  useEffect(refresh, [version]);
  return [list, refresh];
}
