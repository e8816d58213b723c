/** What anyone may know of a run (`/status`): how far it is and how it does. No donor is named, none counted alone. */

import { peerId, total, totalOf } from '../../swarm/base.ts';
import { byNumber, withNumbers } from '../../swarm/islands/rounds.ts';
import type { PublicStatus } from '../../swarm/messages/publicStatus.ts';
import { type Snapshot, type SnapshotPhase, STATE_WORDS } from '../../swarm/messages/snapshot.ts';
import type { WatchedStep } from '../../swarm/messages/watch.ts';
import type { Model } from '../../swarm/model/model.ts';
import { equalSplit, splitProblem } from '../../swarm/planner/equalSplit.ts';
import type { RunFile, Train } from '../../swarm/run/runFile.ts';
import { stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import { keptWhile } from '../http/keptWhile.ts';
import type { ActiveRun } from '../run/run.ts';
import type { Store } from '../store/store.ts';

/** Points of its curve. */
const CURVE_STEPS = 300;
/** Of the newest so many the traffic is told. */
const TRAFFIC_STEPS = 10;

const RETURNING = 'The server is back and waits for its donors. It goes on as soon as they, or others, are here.';

const SENTENCES: Readonly<Record<SnapshotPhase, string>> = {
  waiting: 'No donors right now. It trains as soon as someone joins.',
  preparing: 'Donors are getting ready for the next step.',
  training: 'The model is being trained.',
  evaluating: 'The model is being tested on text it has never seen.',
  saving: 'The model is being saved.',
  paused: 'The run is paused.',
  finished: 'The run is finished.',
};

export const sentenceOf = ({ phase, isReturning }: Pick<Snapshot, 'phase' | 'isReturning'>): string =>
  phase === 'waiting' && isReturning ? RETURNING : SENTENCES[phase];

/** What the run's pages ask all the time, read again only where something was written meanwhile. */
export function publicStatus(
  run: Pick<ActiveRun, 'name' | 'document' | 'model' | 'snapshot' | 'standsSentence'>,
  store: Store,
): () => PublicStatus {
  const { file } = run.document;
  const bytesOfTwo = stepBytesOfTwo(run.model, file);
  const stored = keptWhile(
    () => store.version(),
    () => fromStore(store, run.name, file.train, bytesOfTwo),
  );
  return () => {
    const snapshot = run.snapshot();
    const { phase, committedSteps, steps, loss, evaluationLoss, tokensPerSecond, donors, lossPer, isFull, cannotSave } =
      snapshot;
    return {
      ...{
        run: run.name,
        phase,
        state: STATE_WORDS[phase],
        sentence: run.standsSentence ?? sentenceOf(snapshot),
        committedSteps,
        steps,
        loss,
        evaluationLoss,
        tokensPerSecond,
        ...(lossPer && { lossPer }),
        ...(isFull && { isFull }),
        ...(cannotSave && { cannotSave }),
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
  bytesOfTwo: number | null,
): Pick<PublicStatus, 'curve' | 'evaluations' | 'checkpointStep' | 'minuteTraffic' | 'next'> {
  const committedSteps = store.committedSteps(run);
  const newest = store.steps(run, Math.max(0, committedSteps - 1));
  const spread = store.stepsSpread(run, committedSteps, CURVE_STEPS);
  const steps = byNumber(withNumbers(train, [...spread, ...newest]));
  const curve = steps.map(({ step, loss }): [number, number] => [step + 1, loss]);
  return {
    curve: [...new Map(curve)],
    evaluations: [...store.newestEvaluations(run, CURVE_STEPS)],
    minuteTraffic: minuteTraffic(store.steps(run, Math.max(0, committedSteps - TRAFFIC_STEPS)), bytesOfTwo),
    checkpointStep: store.newestCheckpoint(run)?.committedSteps ?? 0,
    next: store.queue()[0] ?? null,
  };
}

type Moved = Pick<WatchedStep, 'plan' | 'donors' | 'seconds' | 'bytesDirect' | 'bytesRelayed'>;

/**
 * Of a donor, both ways: of each byte there are two ends. By the newest plan's steps; of one who is alone by an even half of
 * each step at the same pace, since whoever reads it would be the second. Null where no step was done, or two cannot share one.
 */
export function minuteTraffic(steps: readonly Moved[], bytesOfTwo: number | null): PublicStatus['minuteTraffic'] {
  const inForce = steps.filter(({ plan }) => plan === steps.at(-1)?.plan);
  const seconds = totalOf(inForce, (step) => step.seconds);
  if (seconds <= 0) return null;
  const isShared = inForce.some(({ donors }) => donors > 1);
  if (!isShared && bytesOfTwo === null) return null;
  const bytes = totalOf(inForce, (step) =>
    isShared ? (2 * (step.bytesDirect + step.bytesRelayed)) / step.donors : (bytesOfTwo ?? 0),
  );
  return { bytes: (bytes / seconds) * 60, isMeasured: isShared };
}

/** Tensor bytes of a step that two donors share evenly, each of them at both its ends; null: two cannot. */
export function stepBytesOfTwo(
  model: Model,
  { train, precision }: Pick<RunFile, 'train' | 'precision'>,
): number | null {
  const options = { stages: Math.min(2, model.layers) };
  if (splitProblem(model, train.globalBatchSize, 2, options) !== null) return null;
  const plan = equalSplit(model, train.globalBatchSize, ['a', 'b'].map(peerId), options);
  const size = { sequence: train.sequenceLength, wire: precision.wire };
  return total(Object.values(stepTraffic(model, plan, size)));
}
