/** What anyone may know of a run (`/status`): how far it is and how it does. No donor is named, none counted alone. */

import { byNumber, withNumbers } from '../../swarm/islands/rounds.ts';
import type { PublicStatus } from '../../swarm/messages/publicStatus.ts';
import type { SnapshotPhase } from '../../swarm/messages/snapshot.ts';
import type { Train } from '../../swarm/run/runFile.ts';
import { keptWhile } from '../http/keptWhile.ts';
import type { ActiveRun } from '../run/run.ts';
import type { Store } from '../store/store.ts';

/** Points of its curve. */
const CURVE_STEPS = 300;

const SENTENCES: Readonly<Record<SnapshotPhase, string>> = {
  waiting: 'The run waits for donors.',
  preparing: 'Donors are getting ready for the next step.',
  training: 'The run is training.',
  evaluating: 'The held-out loss is being computed.',
  saving: 'The state is being saved.',
  paused: 'The run is paused.',
  finished: 'The run is finished.',
};

/** What the run's pages ask all the time, read again only where something was written meanwhile. */
export function publicStatus(
  run: Pick<ActiveRun, 'name' | 'document' | 'snapshot' | 'standsSentence'>,
  store: Store,
): () => PublicStatus {
  const stored = keptWhile(
    () => store.version(),
    () => fromStore(store, run.name, run.document.file.train),
  );
  return () => {
    const { phase, committedSteps, steps, loss, evaluationLoss, tokensPerSecond, donors } = run.snapshot();
    return {
      ...{
        run: run.name,
        phase,
        sentence: run.standsSentence ?? SENTENCES[phase],
        committedSteps,
        steps,
        loss,
        evaluationLoss,
        tokensPerSecond,
      },
      donors: donors.filter(({ state }) => state === 'computing').length,
      ...stored(),
    };
  };
}

function fromStore(
  store: Store,
  run: string,
  train: Train,
): Pick<PublicStatus, 'curve' | 'evaluations' | 'checkpointStep'> {
  const committedSteps = store.committedSteps(run);
  const newest = store.steps(run, committedSteps - 1);
  const spread = store.stepsSpread(run, committedSteps, CURVE_STEPS);
  const steps = byNumber(withNumbers(train, [...spread, ...newest]));
  const curve = steps.map(({ step, loss }): [number, number] => [step + 1, loss]);
  return {
    curve: [...new Map(curve)],
    evaluations: [...store.newestEvaluations(run, CURVE_STEPS)],
    checkpointStep: store.newestCheckpoint(run)?.committedSteps ?? 0,
  };
}
