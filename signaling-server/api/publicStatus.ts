/** What anyone may know of a run (`/status`): how far it is and how it does. No donor is named, none counted alone. */

import { byNumber, withNumbers } from '../../swarm/islands/rounds.ts';
import type { PublicStatus } from '../../swarm/messages/publicStatus.ts';
import type { SnapshotPhase } from '../../swarm/messages/snapshot.ts';
import type { WatchedStep } from '../../swarm/messages/watch.ts';
import type { Train } from '../../swarm/run/runFile.ts';
import { keptWhile } from '../http/keptWhile.ts';
import type { ActiveRun } from '../run/run.ts';
import type { Store } from '../store/store.ts';

/** Points of its curve. */
const CURVE_STEPS = 300;
/** Of the newest so many the traffic is told. */
const TRAFFIC_STEPS = 10;

const SENTENCES: Readonly<Record<SnapshotPhase, string>> = {
  waiting: 'No donors yet. Training goes on as soon as someone joins.',
  preparing: 'Donors are getting ready for the next step.',
  training: 'The model is being trained.',
  evaluating: 'The model is being tested on text it has never seen.',
  saving: 'The model is being saved.',
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
): Pick<PublicStatus, 'curve' | 'evaluations' | 'checkpointStep' | 'minuteBytes' | 'next'> {
  const committedSteps = store.committedSteps(run);
  const newest = store.steps(run, Math.max(0, committedSteps - 1));
  const spread = store.stepsSpread(run, committedSteps, CURVE_STEPS);
  const steps = byNumber(withNumbers(train, [...spread, ...newest]));
  const curve = steps.map(({ step, loss }): [number, number] => [step + 1, loss]);
  return {
    curve: [...new Map(curve)],
    evaluations: [...store.newestEvaluations(run, CURVE_STEPS)],
    minuteBytes: minuteBytes(store.steps(run, Math.max(0, committedSteps - TRAFFIC_STEPS))),
    checkpointStep: store.newestCheckpoint(run)?.committedSteps ?? 0,
    next: store.queue()[0] ?? null,
  };
}

type Moved = Pick<WatchedStep, 'plan' | 'donors' | 'seconds' | 'bytesDirect' | 'bytesRelayed'>;

/** What is sent is received by somebody: of each byte there are two ends. Null where nobody has others under the newest plan. */
export function minuteBytes(steps: readonly Moved[]): number | null {
  const inForce = steps.filter(({ plan, donors }) => plan === steps.at(-1)?.plan && donors > 1);
  const seconds = inForce.reduce((sum, step) => sum + step.seconds, 0);
  const bytes = inForce.reduce((sum, step) => sum + (2 * (step.bytesDirect + step.bytesRelayed)) / step.donors, 0);
  return seconds > 0 ? (bytes / seconds) * 60 : null;
}
